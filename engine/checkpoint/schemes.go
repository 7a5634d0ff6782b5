package checkpoint

// Which modules another program has quantized, and how. The tensors of a module tell this, too, and
// must agree.

import (
	"regexp"
	"strings"
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

// symmetric reports whether the codes have no zero points.
func (s scheme) symmetric() bool { return s.Symmetric == nil || *s.Symmetric }

// schemes say how another program has quantized each module. Targets and ignored modules are named
// by their path, by a regular expression after "re:", which must match at the beginning of a path,
// or by a class of PyTorch, such as "Linear".
type schemes struct {
	all     []scheme
	targets modulePatterns
	ignored modulePatterns
}

// modulePatterns maps names, expressions and classes of modules to indices of schemes.
type modulePatterns struct {
	paths   map[string]int
	regexps []modulePattern
	bytes   int // length of the expressions
	class   int // index+1 of the scheme of the class Linear; 0: none
}

type modulePattern struct {
	*regexp.Regexp
	scheme int
}

// plainScheme is the index of modules that stay plain, among targets with other schemes.
const plainScheme = -1

// The class of all matrices that Headroom loads. Others, such as Embedding, stay plain.
const linearClass = "Linear"

// maxPatternBytes bounds the length of all expressions, because each is matched with each module.
const maxPatternBytes = 32 << 10

// add adds the targets of the scheme with the given index. It ignores expressions that Go does not
// have, because the tensors of a module tell its packing, too. It also ignores those with counts,
// such as (a{1000}){1000}, which become very large programs.
func (p *modulePatterns) add(targets []string, index int) {
	if p.paths == nil {
		p.paths = map[string]int{}
	}
	for _, target := range targets {
		text, isExpression := strings.CutPrefix(target, "re:")
		switch {
		case isExpression:
			if p.bytes += len(text); p.bytes > maxPatternBytes || strings.Contains(text, "{") {
				continue
			}
			if r, err := regexp.Compile(`^(?:` + text + `)`); err == nil {
				p.regexps = append(p.regexps, modulePattern{r, index})
			}
		case target == linearClass:
			p.class = index + 1
		default:
			p.paths[target] = index
		}
	}
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

// of returns the scheme of a module. ok is false if its weights are plain.
func (c *schemes) of(module string) (s scheme, ok bool) {
	if _, ignored := c.ignored.find(module); ignored {
		return s, false
	}
	index, ok := c.targets.find(module)
	if !ok || index == plainScheme {
		return s, false
	}
	return c.all[index], true
}
