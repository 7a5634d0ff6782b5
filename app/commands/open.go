package commands

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"headroom/app/host"
	"headroom/app/library"
	"headroom/app/memory"
	"headroom/app/version"
	"headroom/engine"
)

// ModelFlags are how a model is found and run, in every command that runs one.
type ModelFlags struct {
	Threads      int      `help:"Threads that compute; 0: one a core." placeholder:"N"`
	Context      int      `help:"Longest conversation in tokens; 0: what the model was trained for, or what fits." placeholder:"TOKENS"`
	KVFormat     string   `name:"kv-format" help:"Element type of the KV cache: f16, bf16 or f32." enum:",f16,bf16,f32" default:"" placeholder:"TYPE"`
	Float32      bool     `name:"float32" help:"Exact activations; several times slower."`
	NoPrefixes   bool     `name:"no-prefix-cache" help:"Read every prompt from its beginning, even what has been read before."`
	MaxSequences int      `help:"Requests that run at once; 0: 8." placeholder:"N"`
	ModelsDir    []string `help:"More folders to look for models in." placeholder:"DIR" sep:"none" type:"path"`
}

func (f *ModelFlags) options() engine.Options {
	return engine.Options{Threads: f.Threads, ContextTokens: f.Context, KVFormat: f.KVFormat, Float32Activations: f.Float32, MaxSequences: f.MaxSequences,
		NoPrefixCache: f.NoPrefixes}
}

func (f *ModelFlags) library() *library.Library {
	return library.New(library.Roots(f.ModelsDir), f.options(), engine.Describe)
}

// newHost makes the host that the command will close. lastModel is what Start without a name means at first.
func (f *ModelFlags) newHost(lastModel string) *host.Host {
	return host.New(host.Options{Version: version.Version, Library: f.library(), Meter: &memory.Meter{}, Engine: f.options(), LastModel: lastModel})
}

// load starts a model and waits for it, with a bar where somebody looks.
func load(ctx context.Context, h *host.Host, model string, errOut io.Writer) error {
	if err := h.Start(model); err != nil {
		return err
	}
	if isTerminal(errOut) {
		finish := showProgress(h, errOut)
		defer finish()
	}
	return h.Wait(ctx)
}

// showProgress draws the bar until the returned function is called, which wipes it. What loads within a blink gets none.
func showProgress(h *host.Host, out io.Writer) (finish func()) {
	const blink = 200 * time.Millisecond
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stop:
			return
		case <-time.After(blink):
		}
		bar := progressbar.NewOptions(100, progressbar.OptionSetWriter(out), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetDescription("Loading "+h.State().Engine.Model), progressbar.OptionSetPredictTime(false))
		defer func() { _ = bar.Finish() }()
		_ = bar.RenderBlank() // at 0 % too: that is when people wonder
		changed, done := h.Subscribe()
		defer done()
		for {
			_ = bar.Set(int(100 * h.State().Engine.Progress))
			select {
			case <-stop:
				return
			case <-changed:
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}
