package textproc

import (
	"os"
	"slices"
	"testing"

	"headroom/engine/checkpoint"
	"headroom/engine/sample"
)

// TestSamplerTokens checks the masks of the demo model's tokens against their texts.
func TestSamplerTokens(t *testing.T) {
	p, err := Read(checkpoint.Source{FS: os.DirFS("../../app/demo/model")})
	if err != nil {
		t.Fatal(err)
	}
	tokens := p.Tokenizer()
	in := func(mask []uint64, id int) bool { return mask[id/64]>>(id%64)&1 != 0 }
	breakers, ends := p.Containing(sample.DefaultDRYBreakers()), p.Ends()
	count := 0
	for id := range tokens.VocabSize() {
		text := string(tokens.TokenBytes(int32(id)))
		breaks := slices.ContainsFunc([]rune(text), func(r rune) bool {
			return r == '\n' || r == ':' || r == '"' || r == '*'
		})
		if in(breakers, id) != breaks {
			t.Errorf("token %d, %q: breaks %t, want %t", id, text, !breaks, breaks)
		}
		if want := text == "\n" || p.IsEOS(int32(id)); in(ends, id) != want {
			t.Errorf("token %d, %q: ends %t, want %t", id, text, !want, want)
		}
		if breaks {
			count++
		}
	}
	if count < 4 {
		t.Errorf("only %d tokens break", count)
	}
	if one := p.Containing([]string{"the"}); slices.Equal(one, breakers) {
		t.Error("other texts have the mask of the default breakers")
	}
}
