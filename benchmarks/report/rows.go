package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/measure"
)

// row is one line of a plot: the name of a contender, and dots.
type row struct {
	name string
	dots []dot
	// least and greatest are where the line behind the dots begins and ends, if figured.
	least, greatest float64
}

type dot struct {
	value  float64
	colour color.Color
}

// rowPlot is a plotter of rows, the first at the top.
type rowPlot struct {
	rows    []row
	figured bool // the only dot of each has its figure beside it, and a line for the range
	legend  []sign
}

// newRowPlot adds rows to a chart. A zero on a logarithmic axis stands at its left end.
func newRowPlot(p *plot.Plot, r rowPlot) *plot.Plot {
	p.Y.Min, p.Y.Max = -.6, float64(len(r.rows))-.4
	if len(r.legend) > 1 {
		p.Y.Max += .8 // room for it
	}
	var ticks []plot.Tick
	for i, l := range r.rows {
		ticks = append(ticks, plot.Tick{Value: r.y(i), Label: l.name})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length, p.Y.LineStyle.Width = 0, 0
	p.Add(r)
	return p
}

func (r rowPlot) y(i int) float64 { return float64(len(r.rows) - 1 - i) }

// Plot implements plot.Plotter.
func (r rowPlot) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	in := func(v float64) vg.Length { return x(min(max(v, p.X.Min), p.X.Max)) }
	pen := newPen(c, p)
	for i, l := range r.rows {
		at := y(r.y(i))
		end := c.Max.X
		if r.figured {
			end = in(l.dots[0].value)
		}
		c.StrokeLine2(draw.LineStyle{Color: color.Gray{225}, Width: .5}, c.Min.X, at, end, at)
		if r.figured {
			c.StrokeLine2(draw.LineStyle{Color: l.dots[0].colour, Width: 1.5}, in(l.least), at, in(l.greatest), at)
		}
		for _, d := range l.dots {
			if finite(d.value) {
				pen.dot(vg.Point{X: in(d.value), Y: at}, d.colour)
			}
		}
		if r.figured {
			value := l.dots[0].value
			pen.write(vg.Point{X: in(max(value, l.greatest)) + 6, Y: at}, number(value))
		}
	}
	if len(r.legend) > 1 {
		pen.legend(vg.Point{X: c.Min.X + 4, Y: y(float64(len(r.rows)) - .1)}, r.legend)
	}
}

// plots draws the metrics of an experiment that are to be drawn, one picture for each case.
func plots(in Input, e *experiment.Experiment) []Plot {
	var all []Plot
	for _, m := range e.Metrics {
		if !m.Plot {
			continue
		}
		for _, k := range e.Cases(in.Plan.Depth) {
			if p, ok := metricPlot(in, e, k, m); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

// metricPlot draws one metric of one case: a dot for the median of each contender, a line for
// the range of its repetitions.
func metricPlot(in Input, e *experiment.Experiment, k experiment.Case, m experiment.Metric) (Plot, bool) {
	var rows []row
	var roles []contender.Role
	for _, c := range in.Plan.Contenders {
		values := in.Outcome.Results.Values(key(e, k, c, m))
		median := measure.Median(values)
		if !finite(median) {
			continue
		}
		least, greatest := measure.Spread(values)
		if !finite(greatest) {
			greatest = median
		}
		rows = append(rows, row{c.Name, []dot{{median, colours[c.Role]}}, least, greatest})
		roles = append(roles, c.Role)
	}
	if len(rows) < 2 {
		return Plot{}, false
	}
	title := e.Title
	if k.Name != "" {
		title += ", " + k.Name
	}
	axis := m.Name
	if m.Unit != "" {
		axis += ", " + m.Unit
	}
	axis += map[int]string{1: " (more is better)", -1: " (less is better)"}[m.Better]
	p := chart(title, axis, "")
	scale(&p.X, rows)
	p = newRowPlot(p, rowPlot{rows: rows, figured: true, legend: signs(roles)})
	svg, err := render(18*vg.Centimeter, vg.Length(2.9+.55*(p.Y.Max-p.Y.Min))*vg.Centimeter, p.Draw)
	return Plot{Name: fileName(e.Name, k.Name, m.Name), Caption: title + ": " + axis, SVG: svg}, err == nil
}

// scale has an axis begin at zero, or be logarithmic where the greatest is more than twenty times the least.
func scale(a *plot.Axis, rows []row) {
	least, most := math.Inf(1), 0.
	for _, r := range rows {
		for _, v := range []float64{r.least, r.dots[0].value, r.greatest} {
			most = max(most, v)
			if v > 0 {
				least = min(least, v)
			}
		}
	}
	a.Min, a.Max = 0, most*1.15 // room for the figure
	if most/least > 20 {
		logarithmic(a)
		a.Min = math.Pow(10, math.Floor(math.Log10(least)-.01))
		a.Max = most * math.Pow(most/a.Min, .15)
	}
	if a.Max <= a.Min {
		a.Max = a.Min + 1
	}
}
