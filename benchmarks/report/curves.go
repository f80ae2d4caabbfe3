package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// latencySection draws how latencies are distributed, for those who stand on one kind of
// server each.
func latencySection(in Input) (Section, bool) {
	s := Section{Title: "Latencies", Brief: true, Text: []string{"The further to the right, the rarer: what lies right of 99 % happened to one in a hundred."}}
	for _, what := range []struct{ experiment, kase, metric, title string }{
		{"alone", "", "acquire+release", "Alone, acquire and release"},
		{"contended", sixteen, "acquire", "16 clients on one name, from asking to holding"},
		{"contended", sixteen, "hand-over", "16 clients on one name, from release to the next holder"},
	} {
		for _, service := range contender.Services[1:] {
			var lines []curve
			for _, c := range in.Plan.Contenders {
				points := in.Outcome.Results.Curve(of(what.experiment, what.kase, c.Name, what.metric))
				line := curve{name: c.Name, colour: colours[c.Role]}
				for _, p := range points {
					if ms := float64(p.Nanoseconds) / 1e6; ms > 0 && p.Q < 1 {
						line.points = append(line.points, plotter.XY{X: nine(p.Q), Y: ms})
					}
				}
				if c.Setup.Service == service && c.Setup.Variant == contender.Usual && len(line.points) > 0 {
					lines = append(lines, line)
				}
			}
			if len(lines) == 0 {
				continue
			}
			if p, err := curves(fmt.Sprintf("%s (%s)", what.title, service), lines); err == nil {
				s.Plots = append(s.Plots, p)
			}
		}
	}
	return s, len(s.Plots) > 0
}

// curve is the latencies of one contender.
type curve struct {
	name   string
	colour color.Color
	points plotter.XYs
}

// curves draws how the latencies of some contenders are distributed.
func curves(title string, lines []curve) (Plot, error) {
	p := chart(title, "share of all that took no longer", "ms")
	logarithmic(&p.Y)
	p.X.Tick.Marker = nines{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.TextStyle.Font.Size = 8
	p.Legend.Padding = 2
	sameColour := map[color.Color]int{} // each further line of a colour is dashed in another way
	for _, c := range lines {
		l, err := plotter.NewLine(c.points)
		if err != nil {
			return Plot{}, err
		}
		l.Color, l.Width = c.colour, 1.5
		l.Dashes = [][]vg.Length{nil, {5, 2}, {1, 2}, {7, 2, 1, 2}}[sameColour[c.colour]%4]
		sameColour[c.colour]++
		p.Add(l)
		p.Legend.Add(c.name, l)
	}
	p.X.Min, p.X.Max = 0, 3
	svg, err := render(18*vg.Centimeter, 10*vg.Centimeter, p.Draw)
	return Plot{Name: fileName(title), Caption: title, SVG: svg}, err
}

// nine stretches the axis of quantiles so that each further nine takes as much room.
func nine(q float64) float64 { return -math.Log10(1 - q) }

type nines struct{}

func (nines) Ticks(float64, float64) []plot.Tick {
	var ticks []plot.Tick
	for _, q := range []float64{0, .5, .9, .99, .999} {
		ticks = append(ticks, plot.Tick{Value: nine(q), Label: fmt.Sprintf("%v %%", 100*q)})
	}
	return ticks
}
