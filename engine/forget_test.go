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

// TestForget checks that a forgotten prompt is computed again, except for the part that another
// conversation shares, and that no more of it is written to disk.
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
		remove := func() { // callers of Forget remove the files too
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
			t.Fatalf("stored %t: before Forget, %d of %d tokens are cached, expected all but one",
				stored, again, len(prompt))
		}
		if freed := e.Forget(prompt); freed <= 0 {
			t.Errorf("stored %t: %d bytes were freed, expected some", stored, freed)
		}
		remove()
		if list := e.CachedPrefixes(); len(list) != 0 {
			t.Errorf("stored %t: %d prefixes are cached after Forget, expected none",
				stored, len(list))
		}
		if n, _ := o.History.Len(); n != 0 {
			t.Errorf("stored %t: the history has %d sequences after Forget, expected none",
				stored, n)
		}
		if again := cached(prompt); again != 0 {
			t.Errorf("stored %t: after Forget, %d of %d tokens are cached, expected none",
				stored, again, len(prompt))
		}
		if r := e.Recent()[0].Report; r.CommonTokens != 0 {
			t.Errorf("stored %t: the report has %d common tokens, expected 0", stored,
				r.CommonTokens)
		}

		other := conversationOf(e, head, "What is 63 + 29?")
		shared := cached(other)
		e.Forget(prompt[:len(prompt)-8]) // the disk may lack the end of a conversation
		remove()
		if again := cached(other); shared == 0 || again != len(other)-1 {
			t.Errorf("stored %t: another conversation has %d of %d tokens cached, expected all "+
				"but one; %d shared, expected some", stored, again, len(other), shared)
		}
		if again := cached(prompt); again != shared {
			t.Errorf("stored %t: %d tokens are cached, expected the %d shared ones", stored, again,
				shared)
		}
		if e.Forget(nil); len(e.CachedPrefixes()) != 2 {
			t.Errorf("stored %t: after Forget(nil), %d prefixes are cached, expected 2", stored,
				len(e.CachedPrefixes()))
		}
		e.ForgetAll()
		remove()
		if again := cached(prompt); again != 0 {
			t.Errorf("stored %t: after ForgetAll, %d tokens are cached, expected none",
				stored, again)
		}
		e.ForgetAll()
		if err := e.CheckMemory(); err != nil {
			t.Errorf("stored %t: %v", stored, err)
		}
		e.Close()
		if stored {
			remove()
			if s := o.BlockStore.Stats(); s.Entries != 0 {
				t.Errorf("Close wrote %d files of forgotten conversations", s.Entries)
			}
		}
		if n := e.ForgetAll(); n != 0 {
			t.Errorf("ForgetAll on a closed engine freed %d bytes", n)
		}
	}
}

// TestForgetSparesRunningRequests checks that Forget does not affect a running request.
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
		t.Errorf("finish %s, tokens %v, expected %v", done.Finish, got, want)
	}
	if err := e.CheckMemory(); err != nil {
		t.Error(err)
	}
}
