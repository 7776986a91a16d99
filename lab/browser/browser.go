// Package browser drives a Chromium without a window, by its DevTools protocol, for the tests of the dashboard. It has
// only what these need.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
)

// Find returns the path of Chromium; "" if there is none.
func Find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Page is the one page of a browser.
type Page struct {
	ctx     context.Context
	cmd     *exec.Cmd
	temp    string // a folder for what the browser leaves when it is killed
	ws      *websocket.Conn
	session string
	read    chan struct{} // closed when nothing is read any more
	ended   chan struct{} // closed when no process of the browser has its standard error any more
	gone    chan struct{} // closed when, after that, it was waited for

	mu       sync.Mutex // guards the fields below, and writing
	last     int
	waiting  map[int]chan reply
	problems []string // at most maxProblems
	changes  int      // what was not loaded because of networkChanged
}

// networkChanged is why the browser gives up what it loads when the machine gets or loses an interface or an address,
// as it does when a test beside has a lab. It is no problem of the page.
const networkChanged = "net::ERR_NETWORK_CHANGED"

// maxLoads is how often Go opens a page that is given up because of networkChanged.
const maxLoads = 20

// patience is how long the browser may take for an answer. Until waits for half of it.
const patience = 2 * time.Minute

const (
	maxProblems = 100
	maxMessage  = 64 << 20 // bytes; a screenshot is one
)

type reply struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Open starts a browser with an empty page, which ends with Close. dir, which must exist, is for its files.
func Open(ctx context.Context, chromium, dir string) (*Page, error) {
	cmd := exec.Command(chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--user-data-dir="+dir, "--remote-debugging-port=0", "about:blank")
	temp, err := os.MkdirTemp("", "chromium-") // not in dir: the path of a socket there might be too long
	if err != nil {
		return nil, err
	}
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+temp)
	p := &Page{ctx: ctx, cmd: cmd, temp: temp, waiting: map[int]chan reply{}, read: make(chan struct{}),
		ended: make(chan struct{}), gone: make(chan struct{})}
	out, err := cmd.StderrPipe()
	if err == nil {
		err = lifeline.Start(cmd, p.wait)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(temp))
	}
	if err := p.attach(out); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// wait waits for the browser, which is killed in the end.
func (p *Page) wait() {
	<-p.ended
	_ = p.cmd.Wait()
	close(p.gone)
}

// attach connects to the page of a browser that has started.
func (p *Page) attach(out io.Reader) error {
	lines := bufio.NewScanner(out)
	url, said := "", ""
	for url == "" && lines.Scan() {
		said = lines.Text()
		_, url, _ = strings.Cut(said, "DevTools listening on ")
	}
	go func() {
		defer close(p.ended)
		_, _ = io.Copy(io.Discard, out) // it ends with the last process that has this as its standard error
	}()
	if url == "" {
		return fmt.Errorf("the browser has ended at once; its last words: %q", said)
	}
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return fmt.Errorf("connect to the browser at %q: %w", url, err)
	}
	ws.SetReadLimit(maxMessage)
	p.ws = ws
	go p.receive()
	var targets struct {
		TargetInfos []struct{ TargetID, Type string }
	}
	if err := p.do("Target.getTargets", nil, &targets); err != nil {
		return err
	}
	for _, t := range targets.TargetInfos {
		if t.Type != "page" {
			continue
		}
		var s struct{ SessionID string }
		which := map[string]any{"targetId": t.TargetID, "flatten": true}
		if err := p.do("Target.attachToTarget", which, &s); err != nil {
			return err
		}
		p.session = s.SessionID
		for _, domain := range []string{"Page", "Runtime", "Log"} {
			if err := p.do(domain+".enable", nil, nil); err != nil {
				return err
			}
		}
		return p.do("Performance.enable", map[string]any{"timeDomain": "threadTicks"}, nil) // see Busy
	}
	return errors.New("the browser has no page")
}

// receive reads what the browser sends, until the connection ends.
func (p *Page) receive() {
	defer close(p.read)
	for {
		_, text, err := p.ws.Read(context.Background())
		if err != nil {
			return
		}
		var m struct {
			ID     int
			Method string
			Params json.RawMessage
			reply
		}
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		p.mu.Lock()
		if to := p.waiting[m.ID]; m.ID != 0 && to != nil {
			delete(p.waiting, m.ID)
			to <- m.reply
		}
		switch problem := problemOf(m.Method, m.Params); {
		case strings.Contains(problem, networkChanged):
			p.changes++
		case problem != "" && len(p.problems) < maxProblems:
			p.problems = append(p.problems, problem)
		}
		p.mu.Unlock()
	}
}

// problemOf returns the errors and warnings of the console, exceptions, and what the page was not allowed to do.
func problemOf(method string, params json.RawMessage) string {
	var e struct {
		Type  string
		Entry struct{ Level string }
	}
	_ = json.Unmarshal(params, &e) // otherwise it is none of these
	switch {
	case method == "Runtime.exceptionThrown",
		method == "Runtime.consoleAPICalled" && (e.Type == "error" || e.Type == "warning"),
		method == "Log.entryAdded" && (e.Entry.Level == "error" || e.Entry.Level == "warning"):
		return string(params)
	}
	return ""
}

// Problems returns what the console says is wrong.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// do executes a command of the protocol.
func (p *Page) do(method string, params map[string]any, result any) error {
	ctx, cancel := context.WithTimeoutCause(p.ctx, patience, errors.New("the browser gives no answer"))
	defer cancel()
	p.mu.Lock()
	p.last++
	id, answer := p.last, make(chan reply, 1)
	p.waiting[id] = answer
	m := map[string]any{"id": id, "method": method}
	if params != nil {
		m["params"] = params
	}
	if p.session != "" {
		m["sessionId"] = p.session
	}
	text, err := json.Marshal(m)
	if err == nil {
		err = p.ws.Write(ctx, websocket.MessageText, text)
	}
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r := <-answer:
		if r.Error != nil {
			return fmt.Errorf("%s: %s", method, r.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(r.Result, result)
	case <-p.read:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// Go opens a URL, and waits until the page and all that it names are loaded.
func (p *Page) Go(url string) error {
	for range maxLoads {
		before := p.changed()
		err := p.load(url)
		if err != nil && !strings.Contains(err.Error(), networkChanged) {
			return err
		}
		if err == nil && p.changed() == before {
			return nil
		}
		if err := p.load("about:blank"); err != nil { // from there a URL with a fragment is loaded, too
			return err
		}
	}
	return fmt.Errorf("open %s: the network of this machine has changed %d times meanwhile", url, maxLoads)
}

func (p *Page) load(url string) error {
	var r struct{ ErrorText string }
	if err := p.do("Page.navigate", map[string]any{"url": url}, &r); err != nil {
		return err
	}
	if r.ErrorText != "" {
		return fmt.Errorf("open %s: %s", url, r.ErrorText)
	}
	return p.Until(`document.readyState === "complete"`)
}

func (p *Page) changed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes
}

// Eval evaluates an expression of JavaScript, waits if it is a promise, and decodes its value into result.
func (p *Page) Eval(expression string, result any) error {
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	if err := p.do("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true,
		"returnByValue": true}, &r); err != nil {
		return err
	}
	if r.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if result == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, result)
}

// Until waits until an expression is true. If it does not become true, the error has the document and its problems.
func (p *Page) Until(expression string) error {
	var seen struct {
		Done     bool
		Document string
	}
	err := p.Eval(fmt.Sprintf(`new Promise(done => { const began = Date.now(), look = () => {
		try { if (%s) return done({done: true}) } catch {}
		if (Date.now() - began < %d) return setTimeout(look, 10)
		done({document: document.location.href + document.documentElement.outerHTML.slice(0, 4000)}) }; look() })`,
		expression, (patience/2).Milliseconds()), &seen)
	if err != nil {
		return fmt.Errorf("wait until %s: %w", expression, err)
	}
	if !seen.Done {
		return fmt.Errorf("wait until %s: it is not, after %v; problems %q; %s", expression, patience/2, p.Problems(),
			seen.Document)
	}
	return nil
}

// Busy is how long the page has used a processor, which does not depend on what else the machine does.
func (p *Page) Busy() (time.Duration, error) {
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	if err := p.do("Performance.getMetrics", nil, &r); err != nil {
		return 0, err
	}
	for _, m := range r.Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second)), nil
		}
	}
	return 0, errors.New("the browser does not tell how busy it is")
}

// Scheme makes the page light or dark, of a size in pixels.
func (p *Page) Scheme(scheme string, width, height int) error {
	return errors.Join(
		p.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{
			{"name": "prefers-color-scheme", "value": scheme}}}, nil),
		p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height,
			"deviceScaleFactor": 1, "mobile": false}, nil))
}

// Key presses a key, such as "/" or "Enter".
func (p *Page) Key(key string) error {
	text := key
	if len(key) > 1 {
		text = ""
	}
	down := map[string]any{"type": "keyDown", "key": key, "text": text}
	if key == "Tab" {
		down["windowsVirtualKeyCode"] = 9 // without it the focus stays
	}
	return errors.Join(
		p.do("Input.dispatchKeyEvent", down, nil),
		p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key}, nil))
}

// Picture returns what is seen, as PNG.
func (p *Page) Picture() ([]byte, error) {
	var r struct{ Data string }
	if err := p.do("Page.captureScreenshot", map[string]any{"format": "png"}, &r); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(r.Data)
}

// Close ends the browser and all its processes, and removes its temporary files.
func (p *Page) Close() error {
	if p.ws != nil {
		_ = p.ws.CloseNow() // the browser ends
		<-p.read
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // its group, which is its own
	var err error
	select {
	case <-p.gone:
	case <-time.After(10 * time.Second):
		err = errors.New("a process of the browser does not end")
	}
	return errors.Join(err, os.RemoveAll(p.temp))
}
