package host

import (
	"strings"
	"testing"

	"headroom/app/memory"
)

// TestSuggestions: the three largest that fit and are fast enough, or else smaller ones. The needs
// are those of the published shapes: 4.5 bits for each parameter, and one conversation of the whole
// context.
func TestSuggestions(t *testing.T) {
	h := newTestHost(t)
	for _, c := range []struct {
		room      int64
		bandwidth float64
		want      string
	}{
		{1, 400e9, "Qwen3.5-4B-MLX-4bit no, Qwen3-1.7B-4bit no, Qwen3-0.6B-4bit yes"},
		{100, 400e9, "Qwen3.6-35B-A3B-4bit yes, Qwen3-14B-4bit yes, Qwen3-8B-4bit yes"},
		// Large ones fit, but only a mixture of experts reads so little for each token.
		{100, 20e9, "Qwen3.6-35B-A3B-4bit yes, Qwen3.5-4B-MLX-4bit yes, Qwen3-1.7B-4bit yes"},
	} {
		room := c.room
		var words []string
		last := int64(1 << 62)
		for _, s := range h.suggest(room*gib, c.bandwidth) {
			words = append(words, strings.TrimPrefix(s.ID, "mlx-community/")+" "+string(s.Fits))
			if s.NeedBytes != s.Need.TotalBytes() || s.NeedBytes >= last || s.DownloadBytes == 0 ||
				s.Licence == "" || s.TokensPerSecond <= 0 ||
				s.Fits != memory.Fits(s.NeedBytes, room*gib) {
				t.Errorf("%+v after one that needs %d", s, last)
			}
			last = s.NeedBytes
			if w := s.Need.WeightsBytes; w > s.DownloadBytes*101/100 || w < s.DownloadBytes*3/4 {
				t.Errorf("%s: weights of %d bytes in a download of %d", s.ID, w, s.DownloadBytes)
			}
			t.Logf("%s needs %s: %+v", s.ID, memory.Text(s.NeedBytes), s.Need)
		}
		if got := strings.Join(words, ", "); got != c.want {
			t.Errorf("in %d GiB: %s, want %s", room, got, c.want)
		}
	}
}
