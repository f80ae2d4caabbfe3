package report

import (
	"fmt"
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
)

// cost is what a lock costs one contender at each delay of the network, in milliseconds; NaN where that was not measured.
type cost struct {
	contender.Contender
	alone, contended []float64
}

// costs returns what was measured by the experiment with delays, and the delays; nothing if it was not run.
func costs(in Input) (all []cost, delays []time.Duration) {
	i := slices.IndexFunc(in.Plan.Experiments, func(e experiment.Experiment) bool { return e.Name == "delay" })
	if i < 0 {
		return nil, nil
	}
	cases := in.Plan.Experiments[i].Cases(in.Plan.Depth)
	for _, k := range cases {
		if !slices.Contains(delays, k.Delay) {
			delays = append(delays, k.Delay)
		}
	}
	for _, c := range in.Plan.Contenders {
		var ms []float64
		for _, k := range cases {
			ms = append(ms, 1000/in.Outcome.Results.Median(of("delay", k.Name, c.Name, "rate")))
		}
		if slices.ContainsFunc(ms, finite) {
			all = append(all, cost{c, ms[:len(delays)], ms[len(delays):]}) // the cases are in that order
		}
	}
	return all, delays
}

// costTable has a line for each contender and a column for each delay, alone and contended.
func costTable(all []cost, delays []time.Duration) Table {
	t := Table{Head: []string{"milliseconds for one lock"}}
	for _, who := range []string{"alone", "16 clients"} {
		for _, d := range delays {
			t.Head = append(t.Head, fmt.Sprintf("%s, %v", who, d))
		}
	}
	for _, c := range all {
		row := []string{rowName(c.Contender)}
		for _, ms := range slices.Concat(c.alone, c.contended) {
			cell := ""
			if finite(ms) {
				cell = number(ms)
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// rowName is a contender's name at the beginning of a line of Markdown.
func rowName(c contender.Contender) string {
	if c.Role == contender.Ours {
		return "**" + c.Name + "**"
	}
	return c.Name
}

// drawCosts draws two panels with the same lines, one for each contender: on the left what a lock costs alone, on the right
// with 16 clients; a dot for each delay. It returns false if that was not measured.
func drawCosts(in Input) (Plot, bool) {
	all, delays := costs(in)
	if len(all) == 0 {
		return Plot{}, false
	}
	const caption = "What one lock costs over a network: milliseconds for a lock and its release, by the time of a round trip"
	left := costPanel("one client, nobody else", all, delays, func(k cost) (string, []float64) { return k.Name, k.alone })
	right := costPanel("16 clients on one name", all, delays, func(k cost) (string, []float64) { return " ", k.contended })
	svg, err := render(22*vg.Centimeter, vg.Length(4.2+.55*float64(len(all)))*vg.Centimeter, func(c draw.Canvas) {
		half := c.Size().X * .56 // the left panel has the names as well
		left.Draw(draw.Crop(c, 0, half-c.Size().X, 0, 0))
		right.Draw(draw.Crop(c, half, 0, 0, 0))
	})
	return Plot{Name: costName, Caption: caption, SVG: svg}, err == nil
}

// costPanel draws a line for each contender, with a dot for each delay: what of says of it, its name and its milliseconds.
func costPanel(title string, all []cost, delays []time.Duration, of func(cost) (string, []float64)) *plot.Plot {
	p := chart(title, "ms for one lock (less is better)", "")
	logarithmic(&p.X)
	lines := plotter.NewGrid()
	lines.Vertical.Color = nil
	p.Add(lines)
	names := make([]string, len(all)) // from the bottom
	for _, role := range shownRoles {
		for i, d := range delays {
			s := dots(shade(role, i, len(delays)))
			for k, c := range all {
				y := len(all) - 1 - k
				name, ms := of(c)
				names[y] = name
				if c.Role == role && finite(ms[i]) {
					s.XYs = append(s.XYs, plotter.XY{X: ms[i], Y: float64(y)})
				}
			}
			p.Add(s)
			if role == contender.Ours {
				p.Legend.Add(d.String(), s)
			}
		}
	}
	if p.X.Min > p.X.Max { // nothing was measured
		p.X.Min, p.X.Max = 1, 10
	}
	p.X.Min, p.X.Max = p.X.Min/1.3, p.X.Max*1.3
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -.6, float64(len(all))+1.4 // room for the legend
	return p
}

// shade returns the colour of one of n delays: the longer, the darker.
func shade(role contender.Role, delay, n int) color.Color {
	shade := [...]float64{.35, .65, 1}[3-n+delay]
	mix := func(v uint8) uint8 { return uint8(255 - (255-float64(v))*shade) }
	c := colours[role]
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}
