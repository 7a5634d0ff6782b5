package engine_test

import (
	"testing"

	"headroom/engine"
)

// conversationOf returns a prompt of a few hundred tokens after a shared head.
func conversationOf(e *engine.Engine, head, text string) []int32 {
	return encode(e, head+"<|im_start|>user\n"+text+
		"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n")
}

// TestForget checks that a forgotten prompt is computed again, except for what another conversation
// shares, and that no more of it is written to disk.
func TestForget(t *testing.T) {
	for _, stored := range []bool{false, true} {
		o := engine.Options{MaxSequences: 2, History: engine.NewHistory()}
		if stored {
			o.BlockStore = openStore(t, t.TempDir())
		}
		e := open(t, o)
		cached := func(prompt []int32) int {
			_, _, done := collect(t,
				submit(t, e, engine.Request{Prompt: prompt, MaxTokens: 5, IgnoreEOS: true}))
			return done.Usage.CachedTokens
		}
		remove := func() { // what follows Forget, for the files
			if stored {
				if _, err := o.BlockStore.Clear(); err != nil {
					t.Fatal(err)
				}
			}
		}
		head := system("Answer briefly. ", 120)
		prompt := conversationOf(e, head, "What is a KV cache?")
		cached(prompt)
		if again := cached(prompt); again != len(prompt)-1 {
			t.Fatalf("stored %t: before anything is forgotten %d of %d tokens are cached", stored,
				again, len(prompt))
		}
		if freed := e.Forget(prompt); freed <= 0 {
			t.Errorf("stored %t: %d bytes were freed", stored, freed)
		}
		remove()
		if list := e.CachedPrefixes(); len(list) != 0 {
			t.Errorf("stored %t: %d prefixes are remembered", stored, len(list))
		}
		if n, _ := o.History.Len(); n != 0 {
			t.Errorf("stored %t: prompts are still compared with %d sequences", stored, n)
		}
		if again := cached(prompt); again != 0 {
			t.Errorf("stored %t: forgotten, and %d of %d tokens are cached", stored, again,
				len(prompt))
		}
		if r := e.Recent()[0].Report; r.CommonTokens != 0 {
			t.Errorf("stored %t: the report knows %d tokens", stored, r.CommonTokens)
		}

		other := conversationOf(e, head, "What is 63 + 29?")
		shared := cached(other)
		e.Forget(prompt[:len(prompt)-8]) // as the disk knows it: without its end
		remove()
		if again := cached(other); shared == 0 || again != len(other)-1 {
			t.Errorf("stored %t: another conversation has %d of %d tokens, with %d it shares",
				stored, again, len(other), shared)
		}
		if again := cached(prompt); again != shared {
			t.Errorf(
				"stored %t: forgotten beside another, %d tokens are cached, %d are the other's too",
				stored, again, shared)
		}
		if e.Forget(nil); len(e.CachedPrefixes()) != 2 {
			t.Errorf("stored %t: no tokens are no conversation, and %d of 2 are left", stored,
				len(e.CachedPrefixes()))
		}
		e.ForgetAll()
		remove()
		if again := cached(prompt); again != 0 {
			t.Errorf("stored %t: all is forgotten, and %d tokens are cached", stored, again)
		}
		e.ForgetAll()
		if err := e.CheckMemory(); err != nil {
			t.Errorf("stored %t: %v", stored, err)
		}
		e.Close()
		if stored {
			remove()
			if s := o.BlockStore.Stats(); s.Entries != 0 {
				t.Errorf("closing wrote %d files of what was forgotten", s.Entries)
			}
		}
		if n := e.ForgetAll(); n != 0 {
			t.Errorf("a closed engine frees %d bytes", n)
		}
	}
}

// TestForgetSparesRunningRequests checks that a running request is unaffected.
func TestForgetSparesRunningRequests(t *testing.T) {
	e := open(t, engine.Options{})
	prompt := conversationOf(e, system("Answer briefly. ", 30), "Tell me a story.")
	r := engine.Request{Prompt: prompt, MaxTokens: 60, IgnoreEOS: true}
	want, _, _ := collect(t, submit(t, e, r))
	s := submit(t, e, r)
	for n := 0; n < 3; {
		ev, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == engine.Token {
			n++
		}
	}
	e.Forget(prompt)
	got, _, done := collect(t, s)
	if done.Finish != engine.FinishLength || len(got) == 0 || got[len(got)-1] != want[len(want)-1] {
		t.Errorf("it ended with %s after %v, want %v", done.Finish, got, want)
	}
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
}
