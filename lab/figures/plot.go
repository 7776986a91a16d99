package main

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// plot is a picture of figures: groups of bars, or a line for each series.
type plot struct {
	title, unit string
	x           string   // what labels are, of lines
	lines, log  bool     // log: the axis of values is logarithmic
	labels      []string // of groups of bars, or of the points of lines
	series      []series
}

// series has a value for each label; NaN where there is none.
type series struct {
	name   string
	paper  bool
	values []float64
}

// Sizes of a picture, in its own units.
const (
	plotWidth   = 720
	labelWidth  = 210 // left of bars
	valueWidth  = 80  // right of bars
	barHeight   = 18
	groupGap    = 10
	lineHeight  = 300
	axisWidth   = 70 // left of lines
	axisHeight  = 46 // below them
	legendWidth = 150
)

// draw returns a picture as SVG. Colours are classes of the page's style sheet.
func (p plot) draw() string {
	var b strings.Builder
	if p.lines {
		p.drawLines(&b)
	} else {
		p.drawBars(&b)
	}
	return b.String()
}

// class is the style of a series: those of the paper have one, ours are counted.
func (p plot) class(i int) string {
	if p.series[i].paper {
		return "paper"
	}
	n := 0
	for _, s := range p.series[:i] {
		if !s.paper {
			n++
		}
	}
	return fmt.Sprintf("s%d", n%4)
}

func (p plot) drawBars(b *strings.Builder) {
	bars := 0
	for i := range p.labels {
		for _, s := range p.series {
			if !math.IsNaN(s.values[i]) {
				bars++
			}
		}
	}
	height := bars*barHeight + len(p.labels)*groupGap
	p.begin(b, height)
	a := p.axis()
	y := 0
	for i, label := range p.labels {
		top := y
		for k, s := range p.series {
			v := s.values[i]
			if math.IsNaN(v) {
				continue
			}
			w := max(1, a.at(v)*(plotWidth-labelWidth-valueWidth))
			fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`,
				p.class(k),
				labelWidth, y, w, barHeight-2, html.EscapeString(s.name+", "+label))
			fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`, labelWidth+w+6, y+barHeight-5, number(v))
			y += barHeight
		}
		fmt.Fprintf(b, `<text class="label" x="%d" y="%d">%s</text>`, labelWidth-8, (top+y)/2+4,
			html.EscapeString(label))
		y += groupGap
	}
	b.WriteString("</svg>")
}

func (p plot) drawLines(b *strings.Builder) {
	p.begin(b, lineHeight)
	a := p.axis()
	const bottom, right = lineHeight - axisHeight, plotWidth - legendWidth
	for _, t := range a.ticks() {
		y := bottom - a.at(t)*(bottom-10)
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, axisWidth, y, right, y)
		fmt.Fprintf(b, `<text class="label" x="%d" y="%.1f">%s</text>`, axisWidth-8, y+4, number(t))
	}
	at := func(i int) float64 {
		return axisWidth + 20 + float64(i)*float64(right-axisWidth-40)/float64(max(1, len(p.labels)-1))
	}
	for i, label := range p.labels {
		fmt.Fprintf(b, `<text class="middle" x="%.1f" y="%d">%s</text>`, at(i), bottom+18, html.EscapeString(label))
	}
	fmt.Fprintf(b, `<text class="middle" x="%d" y="%d">%s</text>`, (axisWidth+right)/2, lineHeight-8,
		html.EscapeString(p.x))
	for k, s := range p.series {
		var points []string
		for i, v := range s.values {
			if !math.IsNaN(v) {
				x, y := at(i), bottom-a.at(v)*(bottom-10)
				points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
				fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="4"><title>%s</title></circle>`, p.class(k),
					x, y,
					html.EscapeString(s.name+", "+p.labels[i]+": "+number(v)))
			}
		}
		fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`, p.class(k), strings.Join(points, " "))
	}
	b.WriteString("</svg>")
}

// begin writes what is the same in all pictures. The legend is text of the page.
func (p plot) begin(b *strings.Builder, height int) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, height,
		html.EscapeString(p.title+", in "+p.unit))
}

// axis is the axis of the values of a plot.
type axis struct {
	low, high float64
	log       bool
}

func (p plot) axis() axis {
	a := axis{low: math.Inf(1), log: p.log}
	for _, s := range p.series {
		for _, v := range s.values {
			if !math.IsNaN(v) && (v > 0 || !p.log) {
				a.low, a.high = min(a.low, v), max(a.high, v)
			}
		}
	}
	switch {
	case a.high == 0:
		return axis{high: 1}
	case p.log:
		a.low, a.high = math.Pow(10, math.Floor(math.Log10(a.low))), math.Pow(10, math.Ceil(math.Log10(a.high)))
		if a.low == a.high {
			a.low /= 10
		}
	default:
		a.low = 0
	}
	return a
}

// at returns where a value is on the axis, from 0 to 1.
func (a axis) at(v float64) float64 {
	if a.log {
		return max(0, math.Log10(max(v, a.low)/a.low)/math.Log10(a.high/a.low))
	}
	return max(0, v/a.high)
}

// ticks are round numbers on the axis.
func (a axis) ticks() (list []float64) {
	if a.log {
		for t := a.low; t <= a.high*1.001; t *= 10 {
			list = append(list, t)
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high)))
	for a.high/step < 4 {
		step /= 2
	}
	for t := 0.0; t <= a.high*1.001; t += step {
		list = append(list, t)
	}
	return list
}

// number writes a value for people: three digits that count, and thousands apart.
func number(v float64) string {
	if v == 0 || math.Abs(v) >= 100 {
		whole := strconv.FormatInt(int64(math.Round(v)), 10)
		for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
			whole = whole[:i] + "," + whole[i:]
		}
		return whole
	}
	s := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(s, "e") {
		s = strconv.FormatFloat(v, 'f', 6, 64)
	}
	return s
}
