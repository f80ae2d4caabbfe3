package report

import (
	"bytes"
	"image/color"
	"math"
	"regexp"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

var colours = map[contender.Role]color.RGBA{
	contender.Ours:  {0x0b, 0x6e, 0x99, 255},
	contender.Rival: {0xd1, 0x6b, 0x16, 255},
}

// shownRoles are those of isShown.
var shownRoles = []contender.Role{contender.Ours, contender.Rival}

// meanings are what the legend says.
var meanings = map[contender.Role]string{
	contender.Ours:  "this project",
	contender.Rival: "other libraries",
}

// The names of the plots.
const (
	costName  = "cost"
	ratesName = "rates"
)

// plots draws what was measured of it: the time to acquire against the rate, and what a lock costs over a network.
func plots(in Input) (all []Plot) {
	for _, draw := range []func(Input) (Plot, bool){drawRates, drawCosts} {
		if p, ok := draw(in); ok {
			all = append(all, p)
		}
	}
	return all
}

// isShown reports whether a contender is in plots and in the short table.
func isShown(c contender.Contender) bool {
	return c.Setup.Variant == contender.Usual && !c.Aside && slices.Contains(shownRoles, c.Role)
}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

// chart returns a plot without anything in it.
func chart(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.X.Label.TextStyle.Font.Size, p.Y.Label.TextStyle.Font.Size = 12, 10, 10
	p.Title.Padding = 3
	p.Legend.Top, p.Legend.ThumbnailWidth, p.Legend.TextStyle.Font.Size = true, 10, 8
	return p
}

// logarithmic has an axis be so, with numbers as in the tables.
func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = plot.TickerFunc(func(least, most float64) []plot.Tick {
		ticks := plot.LogTicks{}.Ticks(least/10, most) // those out of range are not drawn
		for i, t := range ticks {
			if !t.IsMinor() {
				ticks[i].Label = number(t.Value)
			}
		}
		return ticks
	})
}

// dots is a plotter of dots, of which there are none yet.
func dots(colour color.Color) *plotter.Scatter {
	return &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: colour, Radius: 3, Shape: draw.CircleGlyph{}}}
}

// finite reports whether v can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

var fonts = regexp.MustCompile(`font-family:[^;"]*`)

// render writes what drawing draws as SVG that names no font which a reader may not have.
func render(w, h vg.Length, drawing func(draw.Canvas)) ([]byte, error) {
	c := vgsvg.New(w, h)
	all := draw.New(c)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	// A reader's font may be wider than the one that was reckoned with.
	drawing(draw.Crop(all, .9*vg.Centimeter, -.3*vg.Centimeter, .2*vg.Centimeter, -.3*vg.Centimeter))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return fonts.ReplaceAll(b.Bytes(), []byte("font-family:Arial,Helvetica,sans-serif")), nil
}
