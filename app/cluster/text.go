package cluster

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxText is the longest line of a rank's output that is kept, in bytes.
const maxText = 64 << 10

// readText calls each with every line until the end. It drops the rest of a line that is too long.
func readText(from io.Reader, each func(string)) {
	in := bufio.NewReaderSize(from, maxText)
	for {
		line, err := in.ReadSlice('\n')
		text := strings.ToValidUTF8(strings.TrimRight(string(line), "\r\n"), "\uFFFD")
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		if text != "" {
			each(text)
		}
		if err != nil {
			return
		}
	}
}
