package tokenizer

// The expressions that split text in byte-level BPE, by the names that GGUF files give them. The
// names and expressions are those of llama.cpp, src/llama-vocab.cpp, and thereby of the models'
// tokenizer.json.

// ggufPattern has the expressions of a name, in order.
type ggufPattern struct {
	patterns     []string
	ignoreMerges bool
	nfc          bool // text is normalized
	addBOS       bool // unless add_bos_token says otherwise
}

// ggufPatterns has the values of tokenizer.ggml.pre.
var ggufPatterns = func() map[string]ggufPattern {
	names := map[string]ggufPattern{}
	add := func(p ggufPattern, all ...string) {
		for _, name := range all {
			names[name] = p
		}
	}
	add(ggufPattern{patterns: []string{llama3Pattern}, ignoreMerges: true, addBOS: true}, "llama3",
		"llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
		"jina-v5-nano")
	add(ggufPattern{patterns: []string{llama3Pattern}}, "dbrx", "smaug-bpe", "glm4", "chatglm-bpe")
	add(ggufPattern{patterns: []string{qwen2Pattern}, nfc: true}, "qwen2", "deepseek-r1-qwen",
		"stablelm2", "hunyuan", "solar-open", "megrez", "kormo", "f2llmv2")
	add(ggufPattern{patterns: []string{qwen2Pattern}}, "grok-2")
	add(ggufPattern{patterns: []string{qwen35Pattern}}, "qwen35")
	add(ggufPattern{patterns: []string{gpt2Pattern}}, "gpt-2", "phi-2", "mpt", "olmo", "jais",
		"trillion", "granite-docling", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat",
		"a.x-4.0", "mellum", "modern-bert", "exaone4")
	add(ggufPattern{patterns: []string{`\p{N}`, gpt2Pattern}}, "starcoder", "refact", "command-r",
		"smollm", "codeshell", "exaone", "minerva-7b", "mellum2")
	add(ggufPattern{patterns: []string{"[\r\n]", `\s?` + alphabets + `+`,
		`\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+`, `\s+$`, `[一-龥ࠀ-一가-\x{D7FF}]+`, `\p{N}+`}},
		"deepseek-llm")
	add(ggufPattern{patterns: []string{"[\r\n]", `\s?\p{L}+`, `\s?\p{P}+`,
		`[一-龥ࠀ-一가-\x{D7FF}]+`, `\p{N}`}}, "deepseek-coder")
	add(ggufPattern{patterns: []string{`\p{N}{1,3}`, `[一-龥\x{3040}-ゟ゠-ヿ]+`, deepseek3Pattern}},
		"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4")
	add(ggufPattern{patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern,
		`[0-9][0-9][0-9]`}}, "falcon")
	add(ggufPattern{patterns: []string{tekkenPattern}, ignoreMerges: true, addBOS: true}, "tekken")
	add(ggufPattern{patterns: []string{o200kPattern}}, "gpt-4o", "llama4", "kanana2", "minimax-m2")
	return names
}()

const (
	deepseek3Pattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
		`[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	upper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	lower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	before      = `[^\r\n\p{L}\p{N}]?`
	contracted  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)?`
	afterDigits = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	tekkenPattern = before + upper + `*` + lower + `+|` + before + upper + `+` + lower +
		`*|\p{N}` + afterDigits
	o200kPattern = before + upper + `*` + lower + `+` + contracted + `|` + before + upper + `+` +
		lower + `*` + contracted + `|\p{N}{1,3}` + afterDigits
)

// alphabets is a class of letters that have upper and lower case, in the version of Unicode of
// which deepseek-llm has them.
const alphabets = `[` + `\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}` +
	`\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}` +
	`\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}` +
	`\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}` +
	`\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}` +
	`\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}` +
	`\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}` +
	`\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}` +
	`\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}` +
	`\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}` +
	`\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}` +
	`\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}` +
	`\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}` +
	`\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}` +
	`\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}` +
	`\x{1E900}-\x{1E943}` + `]`
