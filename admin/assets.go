package admin

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"strconv"
)

//go:embed assets
var files embed.FS

// asset is a file that the page loads. It is served as a whole: ranges and conditions are not worth their code here.
type asset struct {
	kind string
	body []byte
}

var assets, assetsVersion = loadAssets()

func loadAssets() (map[string]asset, string) {
	out, sum := map[string]asset{}, sha256.New()
	for _, f := range []struct{ name, kind string }{
		{"page.css", "text/css; charset=utf-8"}, {"page.js", "text/javascript; charset=utf-8"}, {"icon.svg", "image/svg+xml"},
	} {
		body, err := files.ReadFile("assets/" + f.name)
		if err != nil {
			panic(err) // it is embedded
		}
		out[f.name] = asset{f.kind, body}
		sum.Write(body)
	}
	return out, hex.EncodeToString(sum.Sum(nil)[:8])
}

func (a asset) serve(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
	_, _ = w.Write(a.body)
}
