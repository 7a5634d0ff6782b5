package tokenizer

// Kimi's tiktoken.model: byte-level BPE whose tokens are bytes in the order of their ranks, a line
// each. The special tokens that follow them have their names in tokenizer_config.json, and the
// expression that splits text is only in the model's code. Source:
// https://huggingface.co/moonshotai/Kimi-Linear-48B-A3B-Instruct, tokenization_kimi.py

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
)

// kimiPattern splits text into words. Runs of Han are words of their own.
const kimiPattern = `[\p{Han}]+` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*` +
	`[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+` +
	`[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// kimiSpecialTokens is the number of tokens after those of the file.
const kimiSpecialTokens = 256

// ParseTiktoken parses a tiktoken.model. Without an added_tokens_decoder in config, the special
// tokens have no names. Errors say what is invalid.
func ParseTiktoken(data []byte, config *Config) (*Tokenizer, error) {
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("tokenizer: tiktoken.model has %d bytes, the limit is %d", len(data),
			maxFileBytes)
	}
	v := &vocabulary{}
	if err := v.addRanks(data); err != nil {
		return nil, fmt.Errorf("tokenizer: tiktoken.model: %w", err)
	}
	if err := v.addConfigTokens(config, kimiSpecialTokens); err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer_config.json: %w", err)
	}
	return byteLevelFile(v.added(), kimiPattern).assembleRanks(v)
}

// addRanks adds the tokens of a file with a line for each: its bytes in base64, and its rank.
func (v *vocabulary) addRanks(data []byte) error {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			continue
		}
		id := len(v.tokens)
		if len(fields) != 2 {
			return fmt.Errorf("line %d has %d fields, expected a token and its rank", id+1,
				len(fields))
		}
		if rank, err := strconv.Atoi(string(fields[1])); err != nil || rank != id {
			return fmt.Errorf("line %d has the rank %.20q, expected %d", id+1, fields[1], id)
		}
		token, err := base64.StdEncoding.AppendDecode(nil, fields[0])
		if err != nil || len(token) == 0 {
			return fmt.Errorf("the token of line %d is not base64", id+1)
		}
		spelled := string(appendByteLevel(nil, string(token)))
		if err := v.add(spelled, float64(-id), normalToken); err != nil {
			return err
		}
	}
	if len(v.tokens) == 0 {
		return errors.New("it has no tokens")
	}
	return nil
}

// addConfigTokens adds n tokens with the names that added_tokens_decoder has for their ids. A token
// without a name is special, as if it were reserved.
func (v *vocabulary) addConfigTokens(config *Config, n int) error {
	named := map[int]addedToken{}
	for _, token := range config.decoder {
		named[int(token.ID)] = token
	}
	for id := len(v.tokens); n > 0; n-- {
		name, kind := "<|reserved_token_"+strconv.Itoa(id)+"|>", controlToken
		if token := named[id]; token.Content != "" {
			if name = token.Content; !token.Special {
				kind = userToken
			}
		}
		if err := v.add(name, 0, kind); err != nil {
			return err
		}
		id++
	}
	return nil
}
