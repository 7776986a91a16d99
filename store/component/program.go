package component

import (
	"errors"
	"fmt"
	"math"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"
)

// MaxSource bounds the source of a component, in bytes.
const MaxSource = 16 << 10

// entry is the function that a run calls.
const entry = "run"

// Program is a component that was parsed. It does not change, and may run several times at once.
type Program struct {
	file    *syntax.File
	globals int // how many
	locals  int // of comprehensions outside functions
	main    int // index of entry among the globals
}

// Error says where a component is wrong, or has failed.
type Error struct {
	Line    int // 0: nowhere
	Message string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Message)
}

func failAt(p syntax.Position, format string, args ...any) *Error {
	return &Error{int(p.Line), fmt.Sprintf(format, args...)}
}

// Parse parses a component. The error is an *Error.
func Parse(source string) (*Program, error) {
	if len(source) > MaxSource {
		return nil, &Error{0, fmt.Sprintf("the source has %d bytes, %d are possible", len(source), MaxSource)}
	}
	options := &syntax.FileOptions{}
	file, err := options.Parse("component", source, 0)
	if err == nil {
		err = supported(file)
	}
	if err == nil {
		err = bind(file)
	}
	if err != nil {
		return nil, located(err)
	}
	module := file.Module.(*resolve.Module)
	p := &Program{file: file, globals: len(module.Globals), locals: len(module.Locals), main: -1}
	for _, s := range file.Stmts {
		if d, is := s.(*syntax.DefStmt); is && d.Name.Name == entry && len(d.Params) == 1 {
			p.main = d.Name.Binding.(*resolve.Binding).Index
		}
	}
	if p.main < 0 {
		return nil, &Error{0, "there is no function " + entry + " with one parameter, the arguments"}
	}
	return p, nil
}

// lineOf returns the line of a statement. syntax.Start looks at all of it.
func lineOf(s syntax.Stmt) int32 {
	switch s := s.(type) {
	case *syntax.IfStmt:
		return s.If.Line
	case *syntax.ForStmt:
		return s.For.Line
	case *syntax.DefStmt:
		return s.Def.Line
	case *syntax.AssignStmt:
		return s.OpPos.Line
	}
	return syntax.Start(s).Line
}

// bind resolves the names in a file. Those that nobody has defined are kept from the resolver, which would look for
// similar ones, and that takes seconds.
func bind(file *syntax.File) error {
	unknown := ""
	err := resolve.File(file, func(name string) bool {
		if name != hostName && !isBuiltin(name) && unknown == "" {
			unknown = name
		}
		return !isBuiltin(name)
	}, isBuiltin)
	if err != nil || unknown == "" {
		return err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if x, is := n.(*syntax.Ident); is && x.Name == unknown && err == nil {
			err = failAt(x.NamePos, "undefined: %s", unknown)
		}
		return true
	})
	return err
}

// located converts an error of the parser or resolver.
func located(err error) error {
	if _, is := errors.AsType[*Error](err); is {
		return err
	}
	if e, is := errors.AsType[syntax.Error](err); is {
		return failAt(e.Pos, "%s", e.Msg)
	}
	if list, is := errors.AsType[resolve.ErrorList](err); is {
		return failAt(list[0].Pos, "%s", list[0].Msg)
	}
	return &Error{0, err.Error()}
}

// supported returns an error if a file has what the interpreter has not.
func supported(file *syntax.File) error {
	for _, s := range file.Stmts {
		switch s := s.(type) {
		case *syntax.DefStmt:
			for _, inside := range s.Body {
				if err := supportedNode(inside); err != nil {
					return err
				}
			}
			for _, p := range s.Params {
				if err := supportedParameter(p); err != nil {
					return err
				}
			}
		case *syntax.AssignStmt, *syntax.ExprStmt:
			if err := supportedNode(s); err != nil {
				return err
			}
		default:
			return failAt(syntax.Start(s), "outside functions, a component has only functions and assignments")
		}
	}
	return nil
}

func supportedParameter(p syntax.Expr) error {
	b, isDefault := p.(*syntax.BinaryExpr)
	if _, isName := p.(*syntax.Ident); isName {
		return nil
	}
	if isDefault {
		if _, constant := b.Y.(*syntax.Literal); constant {
			return supportedNode(b.Y)
		}
	}
	return failAt(syntax.Start(p), "a parameter is a name, or a name with a literal as its default")
}

// supportedNode is supported for what is in a function, or in an assignment.
func supportedNode(n syntax.Node) (err error) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if err == nil && n != nil {
			err = supportedOne(n)
		}
		return err == nil
	})
	return err
}

func supportedOne(n syntax.Node) error {
	at := func(what string) error { return failAt(syntax.Start(n), "a component cannot have %s", what) }
	switch n := n.(type) {
	case *syntax.LambdaExpr:
		return at("lambda: define a function")
	case *syntax.DefStmt:
		return at("functions in functions")
	case *syntax.LoadStmt:
		return at("load")
	case *syntax.WhileStmt:
		return at("while: use for and range")
	case *syntax.UnaryExpr:
		if n.Op == syntax.STAR || n.Op == syntax.STARSTAR {
			return at("* and ** before arguments")
		}
	case *syntax.Literal:
		switch v := n.Value.(type) {
		case string:
			if n.Token == syntax.BYTES {
				return at("bytes: use a string")
			}
		case int64:
			if v == math.MinInt64 { // the parser has no such literal
				return at("this number")
			}
		default:
			return at("this number: whole numbers of 64 bits are possible")
		}
	case *syntax.BinaryExpr:
		if n.Op == syntax.SLASH {
			return at("/: use //, for whole numbers")
		}
	case *syntax.AssignStmt:
		if n.Op == syntax.SLASH_EQ {
			return at("/=: use //=, for whole numbers")
		}
	}
	return nil
}
