package generate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headroom/engine/generate"
)

// BenchmarkEncode measures a conversation of 200 turns, about 100,000 tokens, from its messages to
// token IDs. "code" has the characters with which special tokens begin, so it is rendered twice,
// "prose" is rendered once.
func BenchmarkEncode(b *testing.B) {
	for name, line := range map[string]string{
		"prose": "The little dog ran into the garden, and nobody saw where it went. ",
		"code":  "for (int i = 0; i < n; i++) { sum += table[i] << 2; } // the little dog ",
	} {
		b.Run(name, func(b *testing.B) {
			m := newDemo()
			var messages []string
			for i := range 200 {
				role := []string{"user", "assistant"}[i%2]
				text, _ := json.Marshal(fmt.Sprint(i, strings.Repeat(line, 32)))
				messages = append(messages, fmt.Sprintf(`{"role":%q,"content":%s}`, role, text))
			}
			body := `{"messages":[` + strings.Join(messages, ",") + `,{"role":"user","content":"?"}]}`
			var r generate.Request
			if err := json.Unmarshal([]byte(body), &r); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				ids, _, err := r.Encode(b.Context(), m, 1<<20)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(ids)), "tokens")
			}
		})
	}
}
