package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar is a progress bar on standard error, where that is a terminal.
type bar struct {
	shown bool // else nothing is drawn, ever
	drawn bool // and stands on the screen now
	bar   *progressbar.ProgressBar
}

// bar makes one. lines says that lines go to standard output all the time: with both on one terminal there is no bar.
func (s *screen) bar(what string, total int, lines bool) *bar {
	if s.errWidth == 0 || total == 0 || lines && s.outWidth > 0 {
		return &bar{}
	}
	return &bar{shown: true, bar: progressbar.NewOptions(total,
		progressbar.OptionSetWriter(s.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWidth(max(10, min(40, s.errWidth-50))),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionUseANSICodes(os.Getenv("TERM") != "dumb"), // which erase what the terminal has written behind it, such as ^C
	)}
}

func (b *bar) add() {
	if b.shown {
		_ = b.bar.Add(1)
		b.drawn = true
	}
}

// clear takes it off the screen, for other lines; add draws it again.
func (b *bar) clear() {
	if b.drawn {
		_ = b.bar.Clear()
		b.drawn = false
	}
}
