// Models without weights, for pictures and trials of the Models page. Config, tokenizer and weight
// header are those of Qwen3 in MLX's 4-bit packing. The weights are a hole in the file, which uses
// no disk space. The pages list and judge these models like real ones, but a loaded one would
// produce nothing useful.
import { cp, mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

const group = 64;

/** Layers, widths and heads of the public configs. */
export const qwen3 = {
  '0.6B': { layers: 28, hidden: 1024, inner: 3072, heads: 16, tied: true },
  '1.7B': { layers: 28, hidden: 2048, inner: 6144, heads: 16, tied: true },
  '8B': { layers: 36, hidden: 4096, inner: 12288, heads: 32, tied: false },
  '14B': { layers: 40, hidden: 5120, inner: 17408, heads: 40, tied: false },
  '32B': { layers: 64, hidden: 5120, inner: 25600, heads: 64, tied: false },
};
const vocabulary = 151_936;
const keyHeads = 8;
const headWidth = 128;

/**
 * Writes one of these models into a folder. With `missing`, the weights have the file name of an
 * unfinished download.
 */
export async function writeModel(folder, shape, tokenizerFrom, { missing = false } = {}) {
  await mkdir(folder, { recursive: true });
  for (const name of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja'])
    await cp(join(tokenizerFrom, name), join(folder, name));
  await writeFile(join(folder, 'config.json'), JSON.stringify(config(shape), null, 2));
  const [header, bytes] = weights(shape);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const file = await open(
    join(folder, missing ? 'model.safetensors.part' : 'model.safetensors'),
    'w',
  );
  await file.write(Buffer.concat([length, header]));
  await file.truncate(8 + header.length + bytes);
  await file.close();
}

/** The config.json of one of these models. */
export function config({ layers, hidden, inner, heads, tied }) {
  return {
    architectures: ['Qwen3ForCausalLM'],
    model_type: 'qwen3',
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: keyHeads,
    head_dim: headWidth,
    vocab_size: vocabulary,
    rms_norm_eps: 1e-6,
    rope_theta: 1e6,
    max_position_embeddings: 40_960,
    tie_word_embeddings: tied,
    attention_bias: false,
    hidden_act: 'silu',
    quantization: { group_size: group, bits: 4, mode: 'affine' },
  };
}

/** The header of a safetensors file, and the number of bytes that follow it. */
function weights({ layers, hidden, inner, heads, tied }) {
  const entries = {};
  let end = 0;
  const add = (name, dtype, shape, size) => {
    const bytes = shape.reduce((a, b) => a * b, size);
    entries[name] = { dtype, shape, data_offsets: [end, end + bytes] };
    end += bytes;
  };
  const matrix = (name, rows, columns) => {
    add(`${name}.weight`, 'U32', [rows, columns / 8], 4);
    add(`${name}.scales`, 'BF16', [rows, columns / group], 2);
    add(`${name}.biases`, 'BF16', [rows, columns / group], 2);
  };
  const norm = (name, width) => add(`${name}.weight`, 'BF16', [width], 2);
  matrix('model.embed_tokens', vocabulary, hidden);
  for (let i = 0; i < layers; i++) {
    const at = `model.layers.${i}`;
    norm(`${at}.input_layernorm`, hidden);
    norm(`${at}.post_attention_layernorm`, hidden);
    matrix(`${at}.self_attn.q_proj`, heads * headWidth, hidden);
    matrix(`${at}.self_attn.k_proj`, keyHeads * headWidth, hidden);
    matrix(`${at}.self_attn.v_proj`, keyHeads * headWidth, hidden);
    matrix(`${at}.self_attn.o_proj`, hidden, heads * headWidth);
    norm(`${at}.self_attn.q_norm`, headWidth);
    norm(`${at}.self_attn.k_norm`, headWidth);
    matrix(`${at}.mlp.gate_proj`, inner, hidden);
    matrix(`${at}.mlp.up_proj`, inner, hidden);
    matrix(`${at}.mlp.down_proj`, hidden, inner);
  }
  norm('model.norm', hidden);
  if (!tied) matrix('lm_head', vocabulary, hidden);
  const text = JSON.stringify({ __metadata__: { format: 'mlx' }, ...entries });
  return [Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8)), end];
}
