package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// drawRates draws, for 16 clients that want one name, the time in which 99 of 100 acquisitions were
// done against their rate. It returns false if fewer than two contenders have both figures.
func drawRates(in Input) (Plot, bool) {
	title := "Contended, 16 clients on one name"
	p := chart(title, "acquisitions/s (right is better)", "p99, ms (low is better)")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.X.Min, p.Y.Min, p.X.Max, p.Y.Max = math.Inf(1), math.Inf(1), 0, 0
	var all points
	for _, c := range in.Plan.Contenders {
		value := func(metric string) float64 {
			return in.Outcome.Results.Median(of("contended", sixteen, c.Name, metric))
		}
		l := point{name: c.Name, rate: value("rate"), p99: value("acquire p99"), role: c.Role}
		if isShown(c) && l.rate > 0 && l.p99 > 0 && finite(l.rate) && finite(l.p99) {
			all = append(all, l)
			p.X.Min, p.X.Max = min(p.X.Min, l.rate/1.5), max(p.X.Max, l.rate*2)
			p.Y.Min, p.Y.Max = min(p.Y.Min, l.p99/1.5), max(p.Y.Max, l.p99*2)
		}
	}
	if len(all) < 2 {
		return Plot{}, false
	}
	p.Add(all)
	svg, err := render(20*vg.Centimeter, 15*vg.Centimeter, p.Draw)
	return Plot{Name: ratesName, Caption: title + ": time to acquire (p99) against rate", SVG: svg}, err == nil
}

// point is one contender in the plot of rates.
type point struct {
	name      string
	rate, p99 float64
	role      contender.Role
}

// points is a plotter: a dot for each, with its name where that covers nothing and a line to it, and a legend.
type points []point

func (all points) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	pen := newPen(c, p)
	var covered []vg.Rectangle
	var roles []contender.Role
	for _, l := range all {
		at := vg.Point{X: x(l.rate), Y: y(l.p99)}
		pen.dot(at, colours[l.role])
		covered = append(covered, around(at, 5, 5))
		roles = append(roles, l.role)
	}
	for _, l := range all {
		dot, width := vg.Point{X: x(l.rate), Y: y(l.p99)}, pen.width(l.name)
		aside := 6 + width/2
		name := dot.Add(vg.Point{X: aside})
		for _, by := range []vg.Point{
			{X: aside}, {X: -aside}, {Y: 9}, {Y: -9},
			{X: aside, Y: 8}, {X: aside, Y: -8}, {X: -aside, Y: 8}, {X: -aside, Y: -8},
			{Y: 17}, {Y: -17}, {Y: 25}, {Y: -25},
		} {
			area := around(dot.Add(by), width, 7)
			if area.Min.X > c.Min.X && !slices.ContainsFunc(covered, func(r vg.Rectangle) bool { return overlap(r, area) }) {
				name = dot.Add(by)
				break
			}
		}
		covered = append(covered, around(name, width, 7))
		pen.line(dot, vg.Point{X: min(max(dot.X, name.X-width/2), name.X+width/2), Y: name.Y})
		pen.write(vg.Point{X: name.X - width/2, Y: name.Y}, l.name)
	}
	pen.legend(vg.Point{X: c.Min.X + 8, Y: c.Max.Y - 8}, signs(roles))
}

// around returns the rectangle of that size whose middle is at p.
func around(p vg.Point, width, height vg.Length) vg.Rectangle {
	half := vg.Point{X: width / 2, Y: height / 2}
	return vg.Rectangle{Min: p.Sub(half), Max: p.Add(half)}
}

// overlap reports whether two rectangles have a point in common.
func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}
