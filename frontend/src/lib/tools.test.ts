// The settings of each tool are valid for any model name.
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { tools, type Endpoint } from './tools';

const plain: Endpoint = {
  url: 'http://127.0.0.1:11811/v1/',
  model: 'mlx-community/Qwen3.5-9B-4bit',
  contextTokens: 32768,
  key: '',
};
const odd: Endpoint = { ...plain, model: `it's "x" $(y) #z: w`, key: `k'1` };
const text = (id: string, endpoint = plain) => tools(endpoint).find((tool) => tool.id === id)!.text;

describe.each([plain, odd])('$model', (endpoint) => {
  const key = endpoint.key || 'headroom';

  test('every tool has address and model, without a slash at the end of the address', () => {
    for (const tool of tools(endpoint)) {
      const path = tool.id === 'claude-code' ? '' : '/v1'; // it adds /v1 itself
      expect(tool.text).toMatch(new RegExp(`http://127\\.0\\.0\\.1:11811${path}(?!/)`));
      expect(tool.source).toMatch(/^https:/);
    }
  });

  test('OpenCode', () => {
    const { model, provider } = JSON.parse(text('opencode', endpoint));
    expect(model).toBe(`headroom/${endpoint.model}`);
    expect(provider.headroom.options).toEqual({
      baseURL: 'http://127.0.0.1:11811/v1',
      apiKey: key,
    });
    expect(provider.headroom.models[endpoint.model].limit).toEqual({
      context: 32768,
      output: 8192,
    });
  });

  test('Zed', () => {
    const { api_url, available_models } = JSON.parse(text('zed', endpoint)).language_models
      .openai_compatible.Headroom;
    expect(api_url).toBe('http://127.0.0.1:11811/v1');
    expect(available_models).toMatchObject([
      { name: endpoint.model, max_tokens: 32768, capabilities: { tools: true } },
    ]);
  });

  test('Continue: each value is a JSON string, which is valid YAML too', () => {
    const value = (name: string) =>
      JSON.parse(new RegExp(`^ +(?:- )?${name}: (.*)$`, 'm').exec(text('continue', endpoint))![1]!);
    expect([value('name'), value('model'), value('apiBase'), value('apiKey')]).toEqual([
      endpoint.model,
      endpoint.model,
      'http://127.0.0.1:11811/v1',
      key,
    ]);
  });

  test('Codex: each value is a JSON string, which is valid TOML too', () => {
    const lines = text('codex', endpoint).split('\n');
    const value = (name: string, pattern = `^${name} = (.*)$`) =>
      JSON.parse(new RegExp(pattern, 'm').exec(text('codex', endpoint))![1]!);
    expect(value('model')).toBe(endpoint.model);
    expect(value('model_context_window')).toBe(32768);
    expect(value('base_url')).toBe('http://127.0.0.1:11811/v1');
    expect(value('', '"Authorization" = (".*") }$')).toBe(`Bearer ${key}`);
    // Whatever stands before the first table belongs to no provider.
    expect(lines.indexOf('[model_providers.headroom]')).toBeGreaterThan(
      lines.indexOf('model_provider = "headroom"'),
    );
  });

  test('Claude Code, as a shell reads it', () => {
    const names = ['BASE_URL', 'AUTH_TOKEN', 'DEFAULT_OPUS_MODEL', 'DEFAULT_HAIKU_MODEL'];
    const values = names.map((name) => `"$ANTHROPIC_${name}"`).join(' ');
    const shell = `claude() { printf '%s\\n' ${values} "$@"; }\n${text('claude-code', endpoint)}`;
    expect(execFileSync('sh', ['-c', shell], { encoding: 'utf8', env: {} }).split('\n')).toEqual([
      'http://127.0.0.1:11811',
      key,
      endpoint.model,
      endpoint.model,
      '--model',
      endpoint.model,
      '',
    ]);
  });

  // A shell runs the lines. A function replaces the tool and prints its arguments.
  test.each([
    ['aider', 'OPENAI_API_BASE', 'aider', ['--model', `openai/${endpoint.model}`]],
    ['qwen-code', 'OPENAI_BASE_URL', 'qwen', []],
    ['open-webui', 'OPENAI_API_BASE_URL', 'open_webui', ['serve', '--port', '8080']],
  ])('%s, as a shell reads it', (id, base, command, words) => {
    const lines = text(id, endpoint).replace('open-webui', 'open_webui');
    const values = `"$${base}" "$OPENAI_API_KEY" "$OPENAI_MODEL" "$@"`;
    const shell = `${command}() { printf '%s\\n' ${values}; }\n${lines}`;
    const said = execFileSync('sh', ['-c', shell], { encoding: 'utf8', env: {} })
      .trimEnd()
      .split('\n');
    expect(said).toEqual(
      ['http://127.0.0.1:11811/v1', key, id === 'qwen-code' ? endpoint.model : '', ...words].slice(
        0,
        said.length,
      ),
    );
    expect(said.length).toBe(3 + words.length);
  });
});
