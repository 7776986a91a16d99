package main

import (
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestPage draws all figures with a value for each name that they ask for.
func TestPage(t *testing.T) {
	asked := map[string]bool{}
	all, kept := reports{}, map[string]saved{}
	for _, r := range runs {
		if kept[r.name].Args != "" {
			t.Errorf("two runs are called %s", r.name)
		}
		kept[r.name] = saved{Args: r.args}
	}
	used := map[string]bool{}
	for _, f := range figures() {
		for _, name := range f.runs {
			used[name] = true
			if kept[name].Args == "" {
				t.Errorf("%s %s: no run is called %s", f.paper, f.number, name)
			}
		}
		if !slices.ContainsFunc(papers, func(p paper) bool { return p.key == f.paper }) {
			t.Errorf("%s: no such paper: %s", f.number, f.paper)
		}
		for _, p := range f.plots(all) {
			for _, s := range p.series {
				if len(s.values) != len(p.labels) {
					t.Errorf("%s %s, %s: %d values of %s for %d labels", f.paper, f.number, p.title, len(s.values),
						s.name,
						len(p.labels))
				}
			}
			asked[p.title] = true
		}
	}
	for _, r := range runs {
		if !used[r.name] {
			t.Errorf("no figure shows %s", r.name)
		}
	}
	o := options{out: t.TempDir()}
	page, err := o.page()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "were not made here:"); n != len(figures()) {
		t.Errorf("the page of no reports says %d times that a measurement is missing, want %d", n, len(figures()))
	}
}

// TestPictures: pictures are XML, and show each value once.
func TestPictures(t *testing.T) {
	p := plot{title: "a < b", unit: "ms", labels: []string{"x & y", "z"}, series: []series{
		{name: "ours", values: []float64{1.5, 30}}, {name: "<theirs>", paper: true, values: []float64{math.NaN(),
			1234567}}}}
	for _, log := range []bool{false, true} {
		for _, lines := range []bool{false, true} {
			p.log, p.lines = log, lines
			svg := p.draw()
			d := xml.NewDecoder(strings.NewReader(svg))
			for {
				if _, err := d.Token(); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("log %v, lines %v: %v\n%s", log, lines, err, svg)
				}
			}
			if n := strings.Count(svg, "<rect") + strings.Count(svg, "<circle"); n != 3 || strings.Contains(svg,
				"NaN") {
				t.Errorf("log %v, lines %v: %d marks, want 3\n%s", log, lines, n, svg)
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.00123: "0.00123", 1.234: "1.23", 99.94: "99.9", 100.4: "100",
		1234: "1,234", 1234567: "1,234,567", -2500: "-2,500", 0.0000012: "0.000001"} {
		if got := number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

// TestAxis: values are within the axis, and so are its ticks.
func TestAxis(t *testing.T) {
	for _, values := range [][]float64{{0}, {0.002}, {1}, {10}, {9.99}, {3, 5000}, {math.NaN(), 7}} {
		for _, log := range []bool{false, true} {
			a := plot{log: log, series: []series{{values: values}}}.axis()
			ticks := a.ticks()
			if len(ticks) < 2 || len(ticks) > 12 {
				t.Errorf("%v, log %v: ticks %v", values, log, ticks)
			}
			for _, v := range append(ticks, values...) {
				if at := a.at(v); at < 0 || at > 1.001 {
					t.Errorf("%v, log %v: %v is at %v", values, log, v, at)
				}
			}
		}
	}
}
