package wire

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// codec runs the codec of the host (testdata/codec.py), and returns the lines that it prints.
func codec(t *testing.T, what string, in []byte) []string {
	t.Helper()
	python := os.Getenv("HOLDFAST_PYTHON")
	if python == "" {
		if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
			t.Fatal("HOLDFAST_PYTHON does not name a python")
		}
		t.Skip("HOLDFAST_PYTHON does not name a python")
	}
	cmd := exec.Command(python, "testdata/codec.py", what)
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../python", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("codec.py %s: %v", what, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// text formats a value as codec.py does.
func text(value any) string {
	switch v := value.(type) {
	case []byte:
		return "x" + hex.EncodeToString(v)
	case string:
		return "x" + hex.EncodeToString([]byte(v))
	case []any:
		return list(v, func(v any) any { return v })
	}
	return fmt.Sprint(value)
}

func list[T any](values []T, of func(T) any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = text(of(v))
	}
	return "[" + strings.Join(words, " ") + "]"
}

// verbatim is text that is printed already.
type verbatim string

func (v verbatim) String() string { return string(v) }

func texts(values []string) verbatim {
	return verbatim(list(values, func(v string) any { return v }))
}

func headers(values []Header) verbatim {
	return verbatim(list(values, func(h Header) any { return []any{h.Name, h.Value} }))
}

func files(values []File) verbatim {
	return verbatim(list(values, func(f File) any { return []any{f.Path, appendBool(nil, f.Missing)[0], f.Content} }))
}

func lines(values []Line) verbatim {
	return verbatim(list(values, func(l Line) any { return []any{l.Level, l.Logger, l.Text} }))
}

// The host can read what Go writes.
func TestHostReads(t *testing.T) {
	hellos, inputs := rapid.Custom(drawHello), rapid.Custom(func(t *rapid.T) inputAndText {
		return describe(t,
			drawInput(t))
	})
	var stream []byte
	var want []string
	for i := range 200 {
		hello := hellos.Example(i)
		var err error
		if stream, err = AppendHello(stream, &hello); err != nil {
			t.Fatal(err)
		}
		want = append(want, text([]any{hello.Seed, hello.Time, hello.LogLevel, hello.Cluster, texts(hello.Applications),
			texts(hello.Options), hello.Number, hello.State}))

		var body []byte
		var shown []any
		for n := range 1 + i%3 {
			in := inputs.Example(10*i + n)
			body, shown = in.Append(body), append(shown, in.text)
		}
		if stream, err = AppendInputs(stream, body, len(shown)); err != nil {
			t.Fatal(err)
		}
		stream = AppendCheckpoint(stream)
		want = append(want, text(shown), "[]")
	}
	compare(t, codec(t, "show", stream), want)
}

func drawHello(t *rapid.T) Hello {
	return Hello{
		u64(t), int64(u64(t)), u8(t, 255), word(t), rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "applications"),
		rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "options"), u64(t), append(blob(t), 1),
	}
}

type inputAndText struct {
	Input
	text []any
}

func describe(t *rapid.T, in Input) inputAndText {
	shown := []any{in.Number, in.Time}
	switch in.Kind {
	case Up:
		shown = append(shown, "up", uint64(in.Switch), in.Features, in.Ports)
	case Down:
		shown = append(shown, "down", uint64(in.Switch))
	case Message:
		shown = append(shown, "message", uint64(in.Switch), in.Message)
	case Timer:
		shown = append(shown, "timer")
	case Request:
		r := HTTPRequest{word(t), word(t), drawHeaders(t), blob(t)} // a different value from the one drawn above
		in.Request = r.Append(nil)
		shown = append(shown, "request", in.Number, r.Method, r.Path, headers(r.Headers), r.Body)
	case Files:
		set := drawFiles(t)
		in.Files = set.Append(nil)
		shown = append(shown, "files", in.Number, appendBool(nil, set.First)[0], files(set.Files))
	}
	return inputAndText{in, shown}
}

// Go can read what the host writes.
func TestHostWrites(t *testing.T) {
	var got, want []string
	for _, line := range codec(t, "make", nil) {
		frame, shown, _ := strings.Cut(line, " ")
		b, err := hex.DecodeString(frame)
		if err != nil || len(b) < HeaderLen {
			t.Fatalf("codec.py says %q", line)
		}
		typ, size, err := ParseHeader([HeaderLen]byte(b))
		if err != nil || size != len(b)-HeaderLen {
			t.Fatalf("%x: %v of %d bytes, %v", b, typ, size, err)
		}
		values, err := parse(typ, b[HeaderLen:])
		if err != nil {
			t.Fatalf("%x: %v", b, err)
		}
		got, want = append(got, text(values)), append(want, shown)
	}
	compare(t, got, want)
}

func parse(typ FrameType, body []byte) ([]any, error) {
	switch typ {
	case TypeReady:
		r, err := ParseReady(body)
		return []any{r.Wake, r.Python, r.OSKen, texts(r.Classes), lines(r.Lines)}, err
	case TypeResults:
		results, err := ParseResults(body)
		var shown []any
		for _, r := range results {
			commands := verbatim(list(r.Commands, func(c Command) any { return []any{uint64(c.Switch), c.Message} }))
			answers := verbatim(list(r.Answers, func(a Answer) any {
				return []any{a.Request, a.Status,
					headers(a.Headers), a.Body}
			}))
			failures := verbatim(list(r.Failures, func(f Failure) any { return []any{f.App, f.Traceback} }))
			shown = append(shown, []any{r.Number, r.Wake, commands, answers, failures, lines(r.Lines)})
		}
		return shown, err
	case TypeFatal:
		s, err := ParseFatal(body)
		return []any{s}, err
	case TypeCheckpointed:
		c, err := ParseCheckpointed(body)
		return []any{c.Number, c.State, c.Reason}, err
	}
	return nil, fmt.Errorf("a %v frame", typ)
}

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("frame %d\n is     %s\n and not %s", i, got[i], want[i])
		}
	}
}
