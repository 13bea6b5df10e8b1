package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/ackfloor/ackfloor/bench/internal/figures"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	chartWidth = 20 * vg.Centimeter
	lineHeight = 10 * vg.Centimeter // of a chart of lines
	barHeight  = 0.75 * vg.Centimeter
	barMargin  = 2.6 * vg.Centimeter // of a chart of bars, for all that is no bar
)

// The colours are told apart by those who don't see all of them; lines have their own dashes and marks, too.
var palette = []color.RGBA{{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff}, {0xb8, 0x86, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}}

var (
	dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(9), vg.Points(3), vg.Points(2), vg.Points(3)}}
	marks  = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}}
	ours   = palette[0]
	others = color.RGBA{0x9a, 0xa2, 0xaa, 0xff}
	aimRed = color.RGBA{0xc0, 0x20, 0x20, 0xff}
)

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
}

// drawChart writes a chart as SVG. It has a white ground, and so can be read on any page; on a dark one its colours are turned round.
func drawChart(file string, c figures.Chart) error {
	p := plot.New()
	p.Title.Text, p.Title.Padding = c.Title, vg.Points(8)
	p.X.Label.Text, p.Y.Label.Text = c.X.Label, c.Y.Label
	p.BackgroundColor = color.White
	height, err := lineHeight, error(nil)
	if len(c.Bars) > 0 {
		height = barMargin + barHeight*vg.Length(len(c.Bars))
		err = addBars(p, c)
	} else {
		err = addLines(p, c)
	}
	if err != nil {
		return err
	}
	canvas := vgsvg.New(chartWidth, height)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	p.Draw(draw.Crop(all, vg.Points(8), vg.Points(-24), vg.Points(6), vg.Points(-6)))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(readable(out.String())), 0o644)
}

// readable names fonts that are found everywhere, and turns the colours where the page is dark.
func readable(svg string) string {
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	head, rest, ok := strings.Cut(svg, "<g ")
	if !ok {
		return svg
	}
	return head + "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(0.88) hue-rotate(180deg); } }</style>\n<g " + rest
}

// addLines draws curves with their marks.
func addLines(p *plot.Plot, c figures.Chart) error {
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	least, most := math.Inf(1), math.Inf(-1)
	from, to := math.Inf(1), math.Inf(-1)
	for i, l := range c.Lines {
		points := make(plotter.XYs, len(l.X))
		for j := range points {
			points[j].X, points[j].Y = l.X[j], l.Y[j]
			least, most = min(least, l.Y[j]), max(most, l.Y[j])
			from, to = min(from, l.X[j]), max(to, l.X[j])
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = palette[i%len(palette)], vg.Points(1.8), dashes[i%len(dashes)]
		dots.Color, dots.Shape, dots.Radius = line.Color, marks[i%len(marks)], vg.Points(3)
		p.Add(line, dots)
		p.Legend.Add(l.Name, line, dots)
	}
	if c.Aim != nil {
		least, most = min(least, c.Aim.Y), max(most, c.Aim.Y)
		line, err := plotter.NewLine(plotter.XYs{{X: from, Y: c.Aim.Y}, {X: to, Y: c.Aim.Y}})
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = aimRed, vg.Points(1.2), dashes[2]
		p.Add(line)
		p.Legend.Add(c.Aim.Name, line)
	}
	scale(&p.X, c.X, from, to)
	scale(&p.Y, c.Y, least, most)
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = true, true, vg.Points(8), vg.Points(-4)
	p.Legend.TextStyle.Font.Size, p.Legend.Padding = vg.Points(9), vg.Points(2.5)
	// Room above the curves for the legend.
	room := 0.1 + 0.075*float64(len(c.Lines))
	if c.Y.Log {
		p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, room)
	} else {
		p.Y.Max += (p.Y.Max - p.Y.Min) * room
	}
	return nil
}

// scale sets the ends of an axis and its ticks. A linear one begins at 0.
func scale(a *plot.Axis, as figures.Axis, least, most float64) {
	a.Min, a.Max = 0, most
	if as.Log && least > 0 {
		a.Min, a.Max = least, most
		if least == most {
			a.Max = most * 10
		}
		a.Scale = plot.LogScale{}
		a.Tick.Marker = ticks{plot.LogTicks{Prec: -1}}
		return
	}
	if a.Max == 0 {
		a.Max = 1
	}
	a.Tick.Marker = ticks{plot.DefaultTicks{}}
}

// ticks writes the numbers of other ticks short: 20k, 1M.
type ticks struct{ plot.Ticker }

func (t ticks) Ticks(least, most float64) []plot.Tick {
	all := t.Ticker.Ticks(least, most)
	labels := 0
	for i := range all {
		if all[i].Label != "" {
			all[i].Label = short(all[i].Value)
			labels++
		}
	}
	if labels < 2 { // less than a power of ten: then every tick has its number
		for i := range all {
			all[i].Label = short(all[i].Value)
		}
	}
	return all
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + "M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// addBars draws bars from left to right, the first at the top, each with its number behind it.
func addBars(p *plot.Plot, c figures.Chart) error {
	n := len(c.Bars)
	names := make([]string, n)
	labels := plotter.XYLabels{XYs: make(plotter.XYs, n), Labels: make([]string, n)}
	most := 0.0
	for i, b := range c.Bars {
		at := n - 1 - i
		names[at] = b.Name
		labels.XYs[at], labels.Labels[at] = plotter.XY{X: b.Y, Y: float64(at)}, " "+short(b.Y)
		most = max(most, b.Y)
		chart, err := plotter.NewBarChart(plotter.Values{b.Y}, vg.Points(13))
		if err != nil {
			return err
		}
		chart.Horizontal, chart.XMin, chart.LineStyle.Width, chart.Color = true, float64(at), 0, others
		if strings.Contains(b.Name, "ackfloor") || strings.HasPrefix(b.Name, "a worker") {
			chart.Color = ours
		}
		p.Add(chart)
	}
	numbers, err := plotter.NewLabels(labels)
	if err != nil {
		return err
	}
	for i := range numbers.TextStyle {
		numbers.TextStyle[i].YAlign, numbers.TextStyle[i].Font.Size = text.YCenter, vg.Points(9)
	}
	p.Add(numbers)
	p.NominalY(names...)
	p.X.Label.Text, p.Y.Label.Text = c.Y.Label, ""
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, max(most*1.12, 1e-9), -0.6, float64(n)-0.4
	if most == 0 {
		p.X.Max = 1
	}
	p.X.Tick.Marker = ticks{plot.DefaultTicks{}}
	if c.Aim != nil {
		p.X.Max = max(p.X.Max, c.Aim.Y*1.12)
		line, err := plotter.NewLine(plotter.XYs{{X: c.Aim.Y, Y: p.Y.Min}, {X: c.Aim.Y, Y: p.Y.Max}})
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = aimRed, vg.Points(1.2), dashes[2]
		p.Add(line)
		p.X.Label.Text += fmt.Sprintf(" (dotted: %s)", c.Aim.Name)
	}
	return nil
}
