// Package regex matches the regular expressions of tokenizer.json in linear time.
//
// A tokenizer comes with a downloaded model, so its expressions are untrusted code that runs in the
// server. This package never repeats work. A search over a whole text takes time proportional to
// the length of the text times the size of the expression, and bounded memory. The limits below
// hold when an expression is compiled, and the memory limit while it is matched.
//
// Syntax and results are those of Oniguruma, which Hugging Face's tokenizers uses: among several
// matches the leftmost, and of those the one that backtracking finds first. Tests compare with
// stored results of tokenizers. Of 100,000 searches with random expressions, 18 had other results,
// all of them with a repeated part that can match nothing and has an assertion.
//
// Supported are classes with nested classes, && and POSIX brackets, \p{category or script}, groups,
// lookahead and lookbehind of any width, greedy, lazy and counted repetition, possessive repetition
// of one character or class, and the options i, m and x. A part that is not supported is an error
// that names it: backreferences, atomic groups, conditionals, absent expressions, \X, \R, \G and
// \K. Case is ignored character by character, so (?i:ss) does not match ß.
//
// The stages are: parse.go and class.go (text to tree), compile.go (tree to instructions), match.go
// (backtracking with a memo, memo.go) and look.go (lookaround).
package regex

import "errors"

// Limits of an expression. The largest one in known tokenizers has 500 bytes.
const (
	maxPatternBytes = 16 << 10
	maxNesting      = 100
	maxRepeat       = 1000
	maxClasses      = 256 // distinct classes with more than a few ranges
	maxLookarounds  = 16  // wider than one character
)

// MaxCost bounds the steps that a search may take for each character; see Regexp.Cost. The
// expressions of known tokenizers cost up to 95.
const MaxCost = 1500

// maxScratchBytes limits the memory of one search. Ordinary expressions need it only for texts with
// millions of characters of one class in a row.
const maxScratchBytes = 48 << 20

// keptBytes is the scratch memory that a Matcher keeps between searches.
const keptBytes = 256 << 10

// ErrTooComplex is the error of a search that needs more than the allowed memory.
var ErrTooComplex = errors.New(
	"the tokenizer's regular expression needs more than 48 MB of memory for this text")
