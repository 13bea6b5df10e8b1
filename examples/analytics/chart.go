package main

import (
	"fmt"
	"image/color"
	"io"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	chartWidth  = 24 * vg.Centimeter
	chartHeight = 10 * vg.Centimeter
	chartSteps  = 600 // at the most: more would be narrower than a line
)

// chart draws views per minute as a PNG. A long time is drawn in steps of several minutes, each at the average of its minutes.
func chart(to io.Writer, views []minute) error {
	p := plot.New()
	p.Title.Text = "Views of pages per minute"
	p.Title.Padding = vg.Points(8)
	p.X.Label.Text = "time, UTC"
	p.Y.Min = 0
	p.BackgroundColor = color.White
	p.Add(plotter.NewGrid())
	if len(views) == 0 {
		p.Title.Text = "No views yet"
		p.X.Min, p.X.Max, p.Y.Max = 0, 1, 1
		p.HideAxes()
	} else {
		steps, step := inSteps(views)
		if step > time.Minute {
			p.Title.Text += fmt.Sprintf(", average of %v", step)
		}
		line, err := plotter.NewLine(steps)
		if err != nil {
			return err
		}
		line.StepStyle = plotter.PostStep
		line.Color = color.RGBA{R: 0x1f, G: 0x5f, B: 0x9f, A: 0xff}
		line.FillColor = color.RGBA{R: 0xc8, G: 0xdc, B: 0xf0, A: 0xff}
		line.Width = vg.Points(1)
		p.Add(line)
		layout := "15:04"
		if steps[len(steps)-1].X-steps[0].X > (24 * time.Hour).Seconds() {
			layout = "2006-01-02\n15:04"
		}
		p.X.Tick.Marker = plot.TimeTicks{Ticker: evenTicks{}, Format: layout}
	}
	c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(chartWidth, chartHeight), vgimg.UseDPI(110))}
	p.Draw(draw.Crop(draw.New(c), vg.Points(8), vg.Points(-16), vg.Points(8), vg.Points(-8)))
	_, err := c.WriteTo(to)
	return err
}

// inSteps makes points of minutes, with 0 where there is none. The last one ends the last step.
func inSteps(views []minute) (points plotter.XYs, step time.Duration) {
	from := views[0].Minute
	span := views[len(views)-1].Minute.Sub(from) + time.Minute
	step = time.Minute
	for _, wider := range []int{2, 5, 10, 15, 30, 60, 120, 360, 720, 1440} {
		if span/step < chartSteps {
			break
		}
		step = time.Duration(wider) * time.Minute
	}
	for span/step >= chartSteps { // years
		step *= 2
	}
	from = from.Truncate(step)
	n := int(views[len(views)-1].Minute.Sub(from)/step) + 1
	points = make(plotter.XYs, n+1)
	for i := range points {
		points[i].X = float64(from.Add(time.Duration(i) * step).Unix())
	}
	for _, m := range views {
		points[int(m.Minute.Sub(from)/step)].Y += float64(m.Views) / step.Minutes()
	}
	points[n].Y = points[n-1].Y
	return points, step
}

// evenTicks are about eight ticks at round times of the clock.
type evenTicks struct{}

func (evenTicks) Ticks(from, to float64) (ticks []plot.Tick) {
	step := 60.0
	for _, wider := range []float64{120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 7 * 86400, 30 * 86400, 90 * 86400, 365 * 86400} {
		if (to-from)/step <= 8 {
			break
		}
		step = wider
	}
	first := float64(int64(from/step)) * step
	for at := first; at <= to; at += step {
		if at >= from {
			ticks = append(ticks, plot.Tick{Value: at, Label: "x"}) // TimeTicks writes the label
		}
	}
	return ticks
}
