package checkpoint

// Which modules another program has quantized, and how. The tensors of a module tell this, too, and
// must agree.

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"headroom/engine/modelfile"
)

// scheme is how another program has quantized the weights of a group of modules.
type scheme struct {
	Format    string `json:"-"`
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"` // "int" or "float"
	Symmetric *bool  `json:"symmetric"`
	Strategy  string `json:"strategy"`   // "tensor", "channel", "group", "block" and others
	Group     int    `json:"group_size"` // 0: none, -1: a row
	Block     []int  `json:"block_structure"`

	pack pack
}

// weights describes the type of the weights, as far as s states it.
func (s scheme) weights() string {
	text := "its weights have " + bitsText(s.Bits)
	if s.Bits == 0 {
		text = "its weights have no num_bits"
	}
	if s.Type == "" {
		return text + " and no type"
	}
	return fmt.Sprintf("%s of type %q", text, modelfile.Excerpt(s.Type))
}

// symmetric reports whether the codes have no zero points.
func (s scheme) symmetric() bool { return s.Symmetric == nil || *s.Symmetric }

// schemes say how another program has quantized each module. Targets and ignored modules are named
// by their path, by a regular expression after "re:", which must match at the beginning of a path,
// or by a class of PyTorch, such as "Linear".
type schemes struct {
	all     []scheme
	targets modulePatterns
	ignored modulePatterns

	mu    sync.Mutex
	known map[string]int // index+1 of the scheme of each module asked for; 0: it is plain
}

// modulePatterns maps names, expressions and classes of modules to indices of schemes.
type modulePatterns struct {
	paths     map[string]int
	regexps   []modulePattern
	operators int // of the expressions
	class     int // index+1 of the scheme of the class Linear; 0: none
}

type modulePattern struct {
	*regexp.Regexp
	scheme int
}

// plainScheme is the index of modules that stay plain, among targets with other schemes.
const plainScheme = -1

// The class of all matrices that Headroom loads. Others, such as Embedding, stay plain.
const linearClass = "Linear"

// Each expression is matched with each module, and a model may have tens of thousands. The time of
// a match grows with the length of the module's name and the number of operators. Real expressions
// have at most 200 bytes and a few operators. At these limits, a module takes about 2 ms.
const (
	maxPatternBytes     = 1 << 10 // of an expression
	maxPatterns         = 256
	maxPatternOperators = 512 // of all expressions
)

// patternOperators are the operators of expressions that make a match take longer.
const patternOperators = "*+?|"

// add adds the targets of the scheme with the given index. If the expressions are too long or too
// many, it returns a sentence without a period that says so. It ignores expressions that Go does
// not have, because the tensors of a module tell its packing, too. It also ignores those with
// counts, such as (a{1000}){1000}, which become very large programs.
func (p *modulePatterns) add(targets []string, index int) (why string) {
	if p.paths == nil {
		p.paths = map[string]int{}
	}
	for _, target := range targets {
		text, isExpression := strings.CutPrefix(target, "re:")
		switch {
		case isExpression:
			if why := p.addExpression(text, index); why != "" {
				return why
			}
		case target == linearClass:
			p.class = index + 1
		default:
			p.paths[target] = index
		}
	}
	return ""
}

// addExpression adds one expression; see add.
func (p *modulePatterns) addExpression(text string, index int) (why string) {
	if len(text) > maxPatternBytes {
		return fmt.Sprintf("config.json has an expression of %d bytes for names of modules, "+
			"expected at most %d", len(text), maxPatternBytes)
	}
	if strings.Contains(text, "{") {
		return ""
	}
	r, err := regexp.Compile(`^(?:` + text + `)`)
	if err != nil {
		return ""
	}
	p.regexps = append(p.regexps, modulePattern{r, index})
	for _, c := range text {
		if strings.ContainsRune(patternOperators, c) {
			p.operators++
		}
	}
	if len(p.regexps) > maxPatterns || p.operators > maxPatternOperators {
		return fmt.Sprintf("config.json has too many expressions for names of modules, expected "+
			"at most %d, with at most %d of the operators %s", maxPatterns, maxPatternOperators,
			patternOperators)
	}
	return ""
}

// find returns the index of the scheme of a module. A path goes before an expression, and that
// before a class.
func (p *modulePatterns) find(module string) (index int, ok bool) {
	if index, ok = p.paths[module]; ok {
		return index, true
	}
	for _, r := range p.regexps {
		if r.MatchString(module) {
			return r.scheme, true
		}
	}
	return p.class - 1, p.class > 0
}

// of returns the scheme of a module. ok is false if its weights are plain. A module is matched with
// the expressions once, because loading asks for it several times.
func (c *schemes) of(module string) (s scheme, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.known[module]
	if !known {
		n = c.match(module)
		if c.known == nil {
			c.known = map[string]int{}
		}
		c.known[module] = n
	}
	if n == 0 {
		return s, false
	}
	return c.all[n-1], true
}

// match returns index+1 of the scheme of a module; 0: its weights are plain.
func (c *schemes) match(module string) int {
	if _, ignored := c.ignored.find(module); ignored {
		return 0
	}
	if index, ok := c.targets.find(module); ok {
		return index + 1 // plainScheme+1 is 0
	}
	return 0
}
