package metrics_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ackfloor/ackfloor/metrics"
	"github.com/ackfloor/ackfloor/testutil"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Over HTTP, as a Prometheus scrapes: the text has the classic buckets, and the protobuf format those and the native ones.
func TestOverHTTP(t *testing.T) {
	s := testutil.Server(t)
	s.Events(t, 0)
	x := newMetrics(t, metrics.Options{})
	reg := prometheus.NewRegistry()
	reg.MustRegister(x.Collector(newRunner(t, s, "a", testutil.Succeed())))
	h := x.Wrap(testutil.Succeed())
	for range 7 {
		_ = h.Handle(t.Context(), testutil.Message("events.a", nil))
	}
	web := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	defer web.Close()
	for _, accept := range []expfmt.Format{expfmt.NewFormat(expfmt.TypeTextPlain), expfmt.NewFormat(expfmt.TypeProtoDelim)} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", string(accept))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		format := expfmt.ResponseFormat(resp.Header)
		if format.FormatType() != accept.FormatType() {
			t.Fatalf("asked for %q, got %q", accept, format)
		}
		decoder, found := expfmt.NewDecoder(resp.Body, format), false
		for {
			var f dto.MetricFamily
			if err := decoder.Decode(&f); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if f.GetName() != "ackfloor_handle_duration_seconds" {
				continue
			}
			found = true
			h := f.Metric[0].GetHistogram()
			if h.GetSampleCount() != 7 || len(h.Bucket) < 19 {
				t.Errorf("%q: %v", format, h)
			}
			var n int64
			count := int64(h.GetZeroCount())
			for _, d := range h.PositiveDelta {
				n += d
				count += n
			}
			if native := format.FormatType() == expfmt.TypeProtoDelim; native && (count != 7 || h.GetSchema() != 3) {
				t.Errorf("the native buckets hold %d of 7: %v", count, h)
			}
		}
		resp.Body.Close()
		if !found {
			t.Errorf("%q has no durations", format)
		}
	}
}
