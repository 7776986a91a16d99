package main

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

//go:embed page.html style.css site.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

// maxSource bounds a file whose text becomes a page.
const maxSource = 1 << 20

// page is one of the site.
type page struct {
	file     string // in the repository, or as if it were there
	title    string
	body     template.HTML
	headings []*heading
}

// builder makes the pages to which links lead, beginning with those of the menu.
type builder struct {
	root  fs.FS
	made  map[string][]byte // Markdown of generated pages
	pages map[string]*page
	queue []string
}

// build returns the files of the site of the repository at root.
func build(root string) (map[string][]byte, error) {
	generated, err := reference(root)
	if err != nil {
		return nil, err
	}
	b := &builder{root: os.DirFS(root), made: generated, pages: map[string]*page{}}
	for _, s := range menu {
		b.queue = append(b.queue, s.pages...)
	}
	for len(b.queue) > 0 {
		file := b.queue[0]
		b.queue = b.queue[1:]
		if b.pages[file] != nil {
			continue
		}
		p, err := b.page(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		b.pages[file] = p
	}
	return b.files()
}

// page makes one page, and puts those to which it links into the queue.
func (b *builder) page(file string) (*page, error) {
	text, err := b.text(file)
	if err != nil {
		return nil, err
	}
	p := &page{file: file}
	if !strings.HasSuffix(file, ".md") {
		if len(text) > maxSource || !utf8.Valid(text) {
			return nil, fmt.Errorf("%d bytes, or no text: do not link to it", len(text))
		}
		p.title = file
		p.body = template.HTML("<h1>" + template.HTMLEscapeString(file) + "</h1>\n" + codeBlock("", string(text)))
		return p, nil
	}
	body, headings, err := render(text, func(link string) (string, error) { return b.resolve(file, link) })
	if err != nil {
		return nil, err
	}
	if len(headings) == 0 {
		return nil, errors.New("the page has no heading")
	}
	p.title, p.headings, p.body = headings[0].Title, headings, template.HTML(body)
	return p, nil
}

// text is that of a file, or the Markdown of a folder or a generated page.
func (b *builder) text(file string) ([]byte, error) {
	if text, is := b.made[file]; is {
		return text, nil
	}
	if folder, is := strings.CutSuffix(file, "/folder.md"); is {
		return b.folder(folder)
	}
	return fs.ReadFile(b.root, file)
}

// folder lists the files in a folder.
func (b *builder) folder(name string) ([]byte, error) {
	entries, err := fs.ReadDir(b.root, name)
	if err != nil {
		return nil, err
	}
	var list bytes.Buffer
	fmt.Fprintf(&list, "# %s\n\n", name)
	for _, e := range entries {
		if !e.IsDir() {
			fmt.Fprintf(&list, "- [%s](%s)\n", e.Name(), e.Name())
		}
	}
	return list.Bytes(), nil
}

// resolve returns where a link of a page leads in the site, and puts that into the queue.
func (b *builder) resolve(file, link string) (string, error) {
	to, fragment, _ := strings.Cut(link, "#")
	if strings.Contains(link, "://") || to == "" {
		return link, nil
	}
	target := path.Join(path.Dir(file), to)
	if _, is := b.made[target]; !is {
		info, err := fs.Stat(b.root, target)
		if err != nil {
			return "", fmt.Errorf("link %s leads nowhere", link)
		}
		if info.IsDir() {
			readme := path.Join(target, "README.md")
			if _, err := fs.Stat(b.root, readme); err == nil {
				target = readme
			} else {
				target = path.Join(target, "folder.md")
			}
		}
	}
	b.queue = append(b.queue, target)
	to = relative(address(file), address(target))
	if fragment != "" {
		to += "#" + fragment
	}
	return to, nil
}

// relative is the link from one file of the site to another.
func relative(from, to string) string {
	link, err := filepath.Rel(path.Dir(from), to)
	if err != nil {
		panic(err) // both are relative
	}
	return filepath.ToSlash(link)
}

// entry is a line of the menu.
type entry struct {
	Title, Link string
	Current     bool       // it is the page, or one to which the page belongs
	Below       bool       // it is the latter
	Headings    []*heading // of the current page
}

// view is what the layout shows.
type view struct {
	Title, Root string
	Body        template.HTML
	Menu        []struct {
		Title   string
		Entries []entry
	}
	Previous, Next *entry
}

// files renders all pages.
func (b *builder) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, p := range b.pages {
		at := address(p.file)
		if files[at] != nil {
			return nil, fmt.Errorf("two pages have the address %s: give one of them another name", at)
		}
		var out bytes.Buffer
		if err := layout.Execute(&out, b.view(p)); err != nil {
			return nil, err
		}
		files[at] = out.Bytes()
	}
	for _, name := range []string{"style.css", "site.js"} {
		text, err := assets.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[name] = text
	}
	index, err := b.index()
	files[marker] = index
	return files, err
}

func (b *builder) view(p *page) view {
	at := address(p.file)
	root := strings.TrimSuffix(relative(at, "index.html"), "index.html")
	v := view{Title: p.title, Root: root, Body: p.body}
	var all []entry
	current := -1
	for _, s := range menu {
		var entries []entry
		for _, file := range s.pages {
			e := entry{Title: cmp.Or(shortTitles[file], b.pages[file].title), Link: relative(at, address(file))}
			if e.Current = file == parent(p.file); e.Current {
				current = len(all)
				e.Below = file != p.file
				for _, h := range p.headings {
					if h.Level == 2 {
						e.Headings = append(e.Headings, h)
					}
				}
			}
			entries, all = append(entries, e), append(all, e)
		}
		v.Menu = append(v.Menu, struct {
			Title   string
			Entries []entry
		}{s.Title, entries})
	}
	if parent(p.file) != p.file {
		return v
	}
	if current > 0 {
		v.Previous = &all[current-1]
	}
	if current >= 0 && current+1 < len(all) {
		v.Next = &all[current+1]
	}
	return v
}

// index is what the search finds, as a script: a page that was opened as a file may not read other files.
func (b *builder) index() ([]byte, error) {
	type found struct {
		Page    string `json:"p"`
		Address string `json:"a"`
		Heading string `json:"h"`
		Text    string `json:"t,omitempty"`
	}
	var list []found
	for _, p := range b.pages {
		for _, h := range p.headings {
			f := found{Page: p.title, Address: address(p.file), Heading: h.Title}
			if !h.firstOfPage {
				f.Address += "#" + h.ID
			}
			if !strings.HasPrefix(p.file, "docs/counterexamples/") { // long traces, which nobody searches
				f.Text = strings.Join(strings.Fields(h.text.String()), " ")
			}
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b found) int { return strings.Compare(a.Address, b.Address) })
	text, err := json.Marshal(list)
	return slices.Concat([]byte("const searchIndex = "), text, []byte(";\n")), err
}
