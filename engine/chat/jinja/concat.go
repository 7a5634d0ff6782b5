package jinja

import (
	"slices"
	"strings"
	"unsafe"
)

// Texts that grow at their end. Templates build prompts in a variable:
//
//	{% set ns.out = ns.out + message.role + message.content %}
//
// If each sum were a copy, a conversation would take work and memory in the square of its length,
// although only its length is in use. So the last few long sums have room after them, into which
// the next operand is written. The text before it is still a value of its own: it is the beginning
// of the new one. CPython does the same with the string that nothing else refers to.

// sums are the last long sums of a rendering, the latest first. Each can be extended once, because
// it is then the beginning of another one.
type sums []*strings.Builder

const (
	maxSums     = 8
	minSumBytes = 256 // shorter texts are copied
)

// concat returns a + b. It counts the work and the memory.
func (r *renderer) concat(a, b string) string {
	n := len(a) + len(b)
	if len(a) < minSumBytes {
		r.charge(n)
		return a + b
	}
	r.checkLength(n)
	sum := r.sums.take(a)
	switch {
	case sum == nil:
		sum = r.newSum(a, n)
	case sum.Cap() < n:
		sum = r.newSum(a, 2*n)
	}
	r.work(1 + len(b)/bytesPerStep)
	sum.WriteString(b)
	r.sums = slices.Insert(r.sums, 0, sum)
	if len(r.sums) > maxSums {
		r.sums[maxSums] = nil
		r.sums = r.sums[:maxSums]
	}
	return sum.String()
}

// newSum returns a sum that begins with a text and has room for size bytes.
func (r *renderer) newSum(text string, size int) *strings.Builder {
	r.take(size)
	r.work(1 + len(text)/bytesPerStep)
	sum := &strings.Builder{}
	sum.Grow(size)
	sum.WriteString(text)
	return sum
}

// take removes the sum that is the same string as text. It returns nil if there is none.
func (s *sums) take(text string) *strings.Builder {
	for i, sum := range *s {
		if sum.Len() == len(text) && unsafe.StringData(sum.String()) == unsafe.StringData(text) {
			*s = slices.Delete(*s, i, i+1)
			return sum
		}
	}
	return nil
}
