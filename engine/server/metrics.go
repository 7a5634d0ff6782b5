package server

// Prometheus metrics. Names and labels are stable, because dashboards depend on them. Each label
// has a fixed set of values, so that clients cannot make the registry grow.

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headroom/engine"
)

// metrics holds the metrics of GET /metrics. Counters continue when the model changes. Gauges are
// read from the loaded engine at each scrape.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	tokens     *prometheus.CounterVec
	firstToken prometheus.Histogram
	perToken   prometheus.Histogram
}

func newMetrics(models Models) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "headroom_requests_total",
			Help: "HTTP requests by route and status."}, []string{"route", "status"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "headroom_tokens_total",
			Help: "Tokens by kind. cached is a part of prompt, reasoning is a part of generated."},
			[]string{"kind"}),
		// 10 ms to 11 min: from a cached prompt on a small model to a long one on a slow machine.
		firstToken: prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: "headroom_time_to_first_token_seconds",
				Help:    "Time from a request's arrival at the engine to its first token.",
				Buckets: prometheus.ExponentialBuckets(0.01, 2, 17)}),
		// 1 ms to 2 s: 1,000 to 0.5 tokens per second.
		perToken: prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: "headroom_time_per_output_token_seconds",
				Help:    "Mean time between the tokens of a request.",
				Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}),
	}
	for _, kind := range []string{"prompt", "cached", "generated", "reasoning"} {
		m.tokens.WithLabelValues(kind) // so that it is reported as 0 from the start
	}
	m.registry.MustRegister(m.requests, m.tokens, m.firstToken, m.perToken, engineCollector{models},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) request(route string, status int) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
}

// generation counts a generation at its end, successful or not.
func (m *metrics) generation(u engine.Usage, reasoningTokens int, t engine.Timing) {
	m.tokens.WithLabelValues("prompt").Add(float64(u.PromptDoneTokens))
	m.tokens.WithLabelValues("cached").Add(float64(u.CachedTokens))
	m.tokens.WithLabelValues("generated").Add(float64(u.CompletionTokens))
	m.tokens.WithLabelValues("reasoning").Add(float64(reasoningTokens))
	if t.FirstToken > 0 {
		m.firstToken.Observe(t.FirstToken.Seconds())
	}
	if t.DecodeSteps > 0 {
		m.perToken.Observe((t.Decode / time.Duration(t.DecodeSteps)).Seconds())
	}
}

// engineCollector reads the gauges of the loaded engine.
type engineCollector struct{ models Models }

var (
	requestsDesc = prometheus.NewDesc("headroom_engine_requests", "Requests in the engine.",
		[]string{"phase"}, nil)
	speedDesc = prometheus.NewDesc("headroom_engine_tokens_per_second",
		"Speed over the last two seconds.", []string{"phase"}, nil)
	memoryDesc = prometheus.NewDesc("headroom_engine_memory_bytes",
		"Memory allocated by the engine. kv_used is a part of kv.", []string{"kind"}, nil)
)

func (c engineCollector) Describe(out chan<- *prometheus.Desc) {
	out <- requestsDesc
	out <- speedDesc
	out <- memoryDesc
}

func (c engineCollector) Collect(out chan<- prometheus.Metric) {
	var s engine.Stats // zero while no model is loaded
	if m, err := c.models.Acquire(""); err == nil {
		s = m.Engine.Stats()
	}
	gauge := func(desc *prometheus.Desc, value float64, label string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, label)
	}
	gauge(requestsDesc, float64(s.Running), "running")
	gauge(requestsDesc, float64(s.Waiting), "waiting")
	gauge(speedDesc, s.PrefillTokensPerSecond, "prefill")
	gauge(speedDesc, s.DecodeTokensPerSecond, "decode")
	gauge(memoryDesc, float64(s.WeightsBytes), "weights")
	gauge(memoryDesc, float64(s.KVBytes), "kv")
	gauge(memoryDesc, float64(s.KVUsedBytes), "kv_used")
	gauge(memoryDesc, float64(s.StateBytes), "state")
	gauge(memoryDesc, float64(s.ScratchBytes), "scratch")
}
