package main

import (
	"bytes"
	"fmt"
	"html"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extended "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// heading is one of a page.
type heading struct {
	Level       int
	Title, ID   string
	text        strings.Builder // of the section, for the search
	firstOfPage bool
}

// markdown renders pages as GitHub does, with the same anchors.
var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(blocks{}, 100))))

// render returns the HTML of a page, and its headings. resolve returns where a link leads.
func render(source []byte, resolve func(link string) (string, error)) ([]byte, []*heading, error) {
	context := parser.NewContext(parser.WithIDs(anchors{}))
	doc := markdown.Parser().Parse(text.NewReader(source), parser.WithContext(context))
	var headings []*heading
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			h := &heading{Level: n.Level, Title: plainText(n, source), firstOfPage: len(headings) == 0}
			if id, has := n.AttributeString("id"); has {
				h.ID = string(id.([]byte)) // WithAutoHeadingID sets bytes
			}
			headings = append(headings, h)
		case *ast.Link:
			to, err := resolve(string(n.Destination))
			if err != nil {
				return ast.WalkStop, err
			}
			n.Destination = []byte(to)
		case *ast.Text, *ast.CodeBlock, *ast.FencedCodeBlock:
			if len(headings) > 0 && n.Parent().Kind() != ast.KindHeading {
				collect(&headings[len(headings)-1].text, n, source)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	err = markdown.Renderer().Render(&out, source, doc)
	return out.Bytes(), headings, err
}

// collect appends what a node says to the text of a section.
func collect(to *strings.Builder, n ast.Node, source []byte) {
	if t, is := n.(*ast.Text); is {
		to.Write(t.Segment.Value(source))
		if t.SoftLineBreak() || t.NextSibling() == nil {
			to.WriteByte(' ')
		}
		return
	}
	to.Write(n.Lines().Value(source))
}

// plainText is the text of an inline node, without marks.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, is := n.(*ast.Text); is && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	}) // the function returns no error
	return b.String()
}

// anchors makes the ids of the headings of one page.
type anchors map[string]bool

// Generate makes an id as GitHub does.
func (a anchors) Generate(title []byte, _ ast.NodeKind) []byte {
	base := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(linkTargets(string(title))))
	id := base
	for n := 1; a[id] || id == ""; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	a.Put([]byte(id))
	return []byte(id)
}

// Put reserves an id.
func (a anchors) Put(id []byte) { a[string(id)] = true }

// linkTargets returns a title without the targets of its links, which are no part of an anchor.
func linkTargets(title string) string {
	for {
		before, rest, found := strings.Cut(title, "](")
		_, after, closed := strings.Cut(rest, ")")
		if !found || !closed {
			return title
		}
		title = before + after
	}
}

// blocks renders what goldmark would render otherwise: blocks of code, and tables that may be wider than the page.
type blocks struct{}

// RegisterFuncs says for which nodes.
func (blocks) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindFencedCodeBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (
		ast.WalkStatus, error) {
		if entering {
			block := n.(*ast.FencedCodeBlock) // it is registered for these
			info := ""
			if block.Info != nil {
				info = string(block.Info.Segment.Value(source))
			}
			_, _ = w.WriteString(codeBlock(info, string(block.Lines().Value(source)))) // the writer is a buffer
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(extended.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		tag := "</table>\n</div>\n"
		if entering {
			tag = "<div class=\"wide\">\n<table>\n"
		}
		_, _ = w.WriteString(tag)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHTMLBlock, func(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
		return ast.WalkContinue, nil // comments for the test of the tutorial
	})
}

// codeBlock renders a block of code. In one with commands, what is typed is told from what is printed.
func codeBlock(info, code string) string {
	language, terminal, _ := strings.Cut(info, " ")
	if language != "console" {
		return "<pre><code>" + html.EscapeString(code) + "</code></pre>\n"
	}
	var b strings.Builder
	class := "console"
	if terminal != "" {
		class += " second"
		fmt.Fprintf(&b, "<div class=\"terminal\">%s terminal</div>\n", html.EscapeString(terminal))
	}
	fmt.Fprintf(&b, "<pre class=\"%s\"><code>", class)
	document := false
	for line := range strings.Lines(code) {
		prompt := ""
		for _, p := range []string{"$ ", "vnet> "} {
			if strings.HasPrefix(line, p) {
				prompt = p
			}
		}
		switch {
		case prompt != "":
			document = strings.Contains(line, "<<'EOF'")
			fmt.Fprintf(&b, "<span class=\"prompt\">%s</span><b>%s</b>", html.EscapeString(prompt),
				html.EscapeString(line[len(prompt):]))
		case document:
			document = line != "EOF\n"
			fmt.Fprintf(&b, "<b>%s</b>", html.EscapeString(line))
		default:
			fmt.Fprintf(&b, "<span class=\"printed\">%s</span>", html.EscapeString(line))
		}
	}
	b.WriteString("</code></pre>\n")
	return b.String()
}
