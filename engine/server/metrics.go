package server

// Prometheus metrics. A metric that vLLM has too is named like vLLM's, with the prefix headroom_.
// Names and labels are stable, because dashboards depend on them. Each label has a fixed set of
// values, so that clients cannot make the registry grow.

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headroom/engine"
)

// metrics holds the metrics of GET /metrics. Counters continue when models change. Gauges are read
// from the loaded engines at each scrape, and are their sums.
type metrics struct {
	registry         *prometheus.Registry
	requests         *prometheus.CounterVec
	elsewhere        *prometheus.CounterVec
	promptTokens     prometheus.Counter
	prefixCacheHits  prometheus.Counter // in tokens, as in vLLM
	generationTokens prometheus.Counter
	draftTokens      prometheus.Counter
	acceptedTokens   prometheus.Counter
	// Of these two, those of draft models, of blocks, and of predictions.
	draftModelTokens, draftModelAccepted prometheus.Counter
	blockTokens, blockAccepted           prometheus.Counter
	predictionTokens, predictionAccepted prometheus.Counter
	noDrafts                             *prometheus.CounterVec
	decode, decodeWithout                prometheus.Counter // in seconds
	reasoningTokens                      prometheus.Counter
	firstToken                           prometheus.Histogram
	perToken                             prometheus.Histogram
}

func newMetrics(models Models) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "headroom_http_requests_total",
				Help: "HTTP requests by route and status."}, []string{"route", "status"}),
		elsewhere: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "headroom_machine_requests_total",
				Help: "Requests that other machines have answered, by the machine's name."},
			[]string{"machine"}),
		promptTokens: counter("headroom_prompt_tokens_total",
			"Prompt tokens, computed or cached."),
		prefixCacheHits: counter("headroom_prefix_cache_hits_total",
			"Prompt tokens taken from the prefix cache."),
		generationTokens: counter("headroom_generation_tokens_total", "Generated tokens."),
		draftTokens: counter("headroom_spec_decode_num_draft_tokens_total",
			"Tokens that were proposed and verified."),
		acceptedTokens: counter("headroom_spec_decode_num_accepted_tokens_total",
			"Proposed tokens that were what the model chose."),
		draftModelTokens: counter("headroom_spec_decode_draft_model_num_draft_tokens_total",
			"Of the proposed tokens, those of draft models."),
		draftModelAccepted: counter("headroom_spec_decode_draft_model_num_accepted_tokens_total",
			"Of the accepted tokens, those of draft models."),
		blockTokens: counter("headroom_spec_decode_block_num_draft_tokens_total",
			"Of the proposed tokens, those of the models' own blocks (MTP)."),
		blockAccepted: counter("headroom_spec_decode_block_num_accepted_tokens_total",
			"Of the accepted tokens, those of the models' own blocks (MTP)."),
		predictionTokens: counter("headroom_spec_decode_prediction_num_draft_tokens_total",
			"Of the proposed tokens, those of the predictions in requests."),
		predictionAccepted: counter("headroom_spec_decode_prediction_num_accepted_tokens_total",
			"Of the accepted tokens, those of the predictions in requests."),
		noDrafts: prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "headroom_spec_decode_no_drafts_total",
				Help: "Answers without drafts, by the cause of that."}, []string{"cause"}),
		decode: counter("headroom_decode_seconds_total",
			"Time of decoding, from each answer's first token to its last."),
		decodeWithout: counter("headroom_decode_without_drafts_seconds_total",
			"How long decoding would have taken without drafts, estimated from the measured times "+
				"of passes."),
		reasoningTokens: counter("headroom_reasoning_tokens_total",
			"Generated tokens that were reasoning."),
		// 10 ms to 11 min: from a cached prompt on a small model to a long one on a slow machine.
		firstToken: prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: "headroom_time_to_first_token_seconds",
				Help:    "Time from a request's arrival at the engine to its first token.",
				Buckets: prometheus.ExponentialBuckets(0.01, 2, 17)}),
		// 1 ms to 2 s: 1,000 to 0.5 tokens per second.
		perToken: prometheus.NewHistogram(
			prometheus.HistogramOpts{Name: "headroom_request_time_per_output_token_seconds",
				Help:    "Mean time between the tokens of a request.",
				Buckets: prometheus.ExponentialBuckets(0.001, 2, 12)}),
	}
	m.registry.MustRegister(m.requests, m.elsewhere, m.promptTokens, m.prefixCacheHits,
		m.generationTokens,
		m.draftTokens, m.acceptedTokens, m.draftModelTokens, m.draftModelAccepted,
		m.blockTokens, m.blockAccepted, m.predictionTokens, m.predictionAccepted,
		m.noDrafts, m.decode, m.decodeWithout, m.reasoningTokens, m.firstToken, m.perToken,
		engineCollector{models},
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

// forwarded counts a request that another machine answers. People name their machines, and there
// are few.
func (m *metrics) forwarded(machine string) { m.elsewhere.WithLabelValues(machine).Inc() }

// generation counts a generation at its end, successful or not.
func (m *metrics) generation(u engine.Usage, reasoningTokens int, rec *record) {
	t := rec.timing
	m.promptTokens.Add(float64(u.PromptDoneTokens))
	m.prefixCacheHits.Add(float64(u.CachedTokens))
	m.generationTokens.Add(float64(u.CompletionTokens))
	m.draftTokens.Add(float64(u.DraftTokens))
	m.acceptedTokens.Add(float64(u.AcceptedTokens))
	m.draftModelTokens.Add(float64(u.DraftModelTokens))
	m.draftModelAccepted.Add(float64(u.DraftModelAccepted))
	m.blockTokens.Add(float64(u.BlockTokens))
	m.blockAccepted.Add(float64(u.BlockAccepted))
	m.predictionTokens.Add(float64(u.PredictionTokens))
	m.predictionAccepted.Add(float64(u.PredictionAccepted))
	if cause := rec.noDrafts.Cause.String(); cause != "" {
		m.noDrafts.WithLabelValues(cause).Inc()
	}
	m.decode.Add(max(0, t.Decode.Seconds()))
	m.decodeWithout.Add(max(0, (t.Decode + t.Saved).Seconds()))
	m.reasoningTokens.Add(float64(reasoningTokens))
	if t.FirstToken > 0 {
		m.firstToken.Observe(t.FirstToken.Seconds())
	}
	if t.DecodeSteps > 0 {
		m.perToken.Observe((t.Decode / time.Duration(t.DecodeSteps)).Seconds())
	}
}

// engineCollector reads the gauges of the loaded engines.
type engineCollector struct{ models Models }

var (
	upDesc = prometheus.NewDesc("headroom_engine_up",
		"1 if a model is loaded and all processes of models answer, 0 otherwise.", nil, nil)
	loadedDesc  = prometheus.NewDesc("headroom_models_loaded", "Loaded models.", nil, nil)
	crashesDesc = prometheus.NewDesc("headroom_engine_crashes_total",
		"How often a model's process has crashed.", nil, nil)
	runningDesc = prometheus.NewDesc("headroom_num_requests_running",
		"Requests that the engines are running.", nil, nil)
	waitingDesc = prometheus.NewDesc("headroom_num_requests_waiting",
		"Requests that wait for an engine.", nil, nil)
	speedDesc = prometheus.NewDesc("headroom_engine_tokens_per_second",
		"Speed over the last two seconds.", []string{"phase"}, nil)
	memoryDesc = prometheus.NewDesc("headroom_engine_memory_bytes",
		"Memory allocated by the engines. kv_used is a part of kv.", []string{"kind"}, nil)
)

func (c engineCollector) Describe(out chan<- *prometheus.Desc) {
	out <- upDesc
	out <- loadedDesc
	out <- crashesDesc
	out <- runningDesc
	out <- waitingDesc
	out <- speedDesc
	out <- memoryDesc
}

func (c engineCollector) Collect(out chan<- prometheus.Metric) {
	var s engine.Stats // the sums of all loaded models
	loaded, silent := 0, 0
	for _, m := range c.models.List() {
		if m.Engine == nil {
			continue
		}
		loaded++
		if healthOf(m.Engine, 0) != nil {
			silent++
		}
		one := m.Engine.Stats()
		s.Running += one.Running
		s.Waiting += one.Waiting
		s.PrefillTokensPerSecond += one.PrefillTokensPerSecond
		s.DecodeTokensPerSecond += one.DecodeTokensPerSecond
		s.WeightsBytes += one.WeightsBytes
		s.KVBytes += one.KVBytes
		s.KVUsedBytes += one.KVUsedBytes
		s.StateBytes += one.StateBytes
		s.ScratchBytes += one.ScratchBytes
	}
	up := 0.0
	if loaded > 0 && silent == 0 {
		up = 1
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(upDesc, up)
	gauge(loadedDesc, float64(loaded))
	if m, ok := c.models.(interface{ Crashes() int64 }); ok {
		out <- prometheus.MustNewConstMetric(crashesDesc, prometheus.CounterValue,
			float64(m.Crashes()))
	}
	gauge(runningDesc, float64(s.Running))
	gauge(waitingDesc, float64(s.Waiting))
	gauge(speedDesc, s.PrefillTokensPerSecond, "prefill")
	gauge(speedDesc, s.DecodeTokensPerSecond, "decode")
	gauge(memoryDesc, float64(s.WeightsBytes), "weights")
	gauge(memoryDesc, float64(s.KVBytes), "kv")
	gauge(memoryDesc, float64(s.KVUsedBytes), "kv_used")
	gauge(memoryDesc, float64(s.StateBytes), "state")
	gauge(memoryDesc, float64(s.ScratchBytes), "scratch")
}
