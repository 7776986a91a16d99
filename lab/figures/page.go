package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

// page returns the page of the reports that are there.
func (o options) page() ([]byte, error) {
	all, kept, err := o.load()
	if err != nil {
		return nil, err
	}
	data := pageData{Date: time.Now().Format(time.DateOnly), Machine: machine(), Commit: commit()}
	for _, p := range papers {
		s := section{Title: p.title, Machine: p.machine}
		for _, f := range figures() {
			if f.paper == p.key {
				s.Figures = append(s.Figures, f.draw(all, kept))
			}
		}
		for _, u := range unmeasured {
			if u.paper == p.key {
				s.Unmeasured = append(s.Unmeasured, [3]string{u.number, u.what, u.here})
			}
		}
		data.Sections = append(data.Sections, s)
	}
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, data)
	return out.Bytes(), err
}

// pageData is what the page shows.
type pageData struct {
	Date, Machine, Commit string
	Sections              []section
}

// section is a paper.
type section struct {
	Title, Machine string
	Figures        []drawn
	Unmeasured     [][3]string // number, what it shows, where that is here
}

// drawn is a figure on the page.
type drawn struct {
	Number, Title, Says, Note string
	Plots                     []drawnPlot
	Commands, Errors          []string
	Missing                   int // reports that are not there
}

type drawnPlot struct {
	Title, Unit string
	SVG         template.HTML
	Legend      [][2]string // class and name
	Labels      []string
	Rows        [][]string // a name, and a value for each label
}

// load reads the reports that are there.
func (o options) load() (reports, map[string]saved, error) {
	all, kept := reports{}, map[string]saved{}
	for _, r := range runs {
		b, err := os.ReadFile(o.file(r))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var s saved
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		if err != nil {
			return nil, nil, err
		}
		kept[r.name] = s
		for name, v := range s.Figures {
			all[r.name+":"+name] = v
		}
	}
	return all, kept, nil
}

func (f figure) draw(all reports, kept map[string]saved) drawn {
	d := drawn{Number: f.number, Title: f.title, Says: f.says, Note: f.note}
	for _, name := range f.runs {
		s, there := kept[name]
		switch {
		case !there:
			d.Missing++
		case s.Error != "":
			d.Errors = append(d.Errors, s.Args+": "+s.Error)
		}
		if there {
			d.Commands = append(d.Commands, "holdfast bench "+s.Args)
		}
	}
	for _, p := range f.plots(all) {
		p = p.known()
		if p.ours() {
			d.Plots = append(d.Plots, p.onPage())
		}
	}
	return d
}

// known leaves out labels without any value.
func (p plot) known() plot {
	q := p
	q.labels, q.series = nil, slices.Clone(p.series)
	for k := range q.series {
		q.series[k].values = nil
	}
	for i, label := range p.labels {
		if !slices.ContainsFunc(p.series, func(s series) bool { return !math.IsNaN(s.values[i]) }) {
			continue
		}
		q.labels = append(q.labels, label)
		for k, s := range p.series {
			q.series[k].values = append(q.series[k].values, s.values[i])
		}
	}
	return q
}

// ours says whether there is anything of Holdfast to draw.
func (p plot) ours() bool {
	return slices.ContainsFunc(p.series, func(s series) bool {
		return !s.paper && slices.ContainsFunc(s.values, func(v float64) bool { return !math.IsNaN(v) })
	})
}

func (p plot) onPage() drawnPlot {
	d := drawnPlot{Title: p.title, Unit: p.unit, SVG: template.HTML(p.draw()),
		Labels: p.labels} // draw escapes its texts
	for k, s := range p.series {
		row := []string{s.name}
		for _, v := range s.values {
			text := ""
			if !math.IsNaN(v) {
				text = number(v)
			}
			row = append(row, text)
		}
		if slices.ContainsFunc(row[1:], func(s string) bool { return s != "" }) {
			d.Legend = append(d.Legend, [2]string{p.class(k), s.name})
			d.Rows = append(d.Rows, row)
		}
	}
	return d
}

// machine describes this machine.
func machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.Join([]string{number(float64(runtime.NumCPU())) + " processors", model,
		"Linux " + strings.TrimSpace(string(kernel))}, ", ")
}

// commit names the code that was measured.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
