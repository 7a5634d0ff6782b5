// The settings or commands that make other programs on this machine use Headroom.
//
// Each form comes from the tool's documentation (`source`).
import { tools as texts } from '../strings/overview';
import { shellQuoted } from './snippets';

export interface Endpoint {
  /** The base URL, as http://127.0.0.1:11811/v1. */
  url: string;
  model: string;
  contextTokens: number;
  /** The API key; empty if none is required. Most tools demand one anyway and get noKey. */
  key: string;
}

export interface Tool {
  id: string;
  label: string;
  /** Where the text belongs. */
  where: string;
  text: string;
  /** The address of the tool's documentation of these settings. */
  source: string;
}

/** Stands for a named key, whose text only its owner knows. */
export const namedKey = 'YOUR_API_KEY';

/** Sent when no key is required; the endpoint ignores it. */
const noKey = 'headroom';

export function tools(endpoint: Endpoint): Tool[] {
  const url = endpoint.url.replace(/\/+$/, '');
  const { model, contextTokens } = endpoint;
  const key = endpoint.key || noKey;
  const json = (value: unknown) => JSON.stringify(value, null, 2);
  /** A shell command that sets an environment variable. */
  const set = (name: string, value: string) => `export ${name}=${shellQuoted(value)}`;
  return [
    {
      id: 'claude-code',
      ...texts.claudeCode,
      source: 'https://code.claude.com/docs/en/llm-gateway',
      text: [
        set('ANTHROPIC_BASE_URL', url.replace(/\/v1$/, '')),
        set('ANTHROPIC_AUTH_TOKEN', key),
        // Every size of model that Claude Code asks for is this one.
        ...['OPUS', 'SONNET', 'HAIKU'].map((size) => set(`ANTHROPIC_DEFAULT_${size}_MODEL`, model)),
        `claude --model ${shellQuoted(model)}`,
      ].join('\n'),
    },
    {
      id: 'codex',
      ...texts.codex,
      source: 'https://developers.openai.com/codex/config-reference',
      // JSON strings are valid TOML, so no name can break the file.
      text: [
        `model = ${JSON.stringify(model)}`,
        'model_provider = "headroom"',
        `model_context_window = ${contextTokens}`,
        'web_search = "disabled"',
        '',
        '[model_providers.headroom]',
        'name = "Headroom"',
        `base_url = ${JSON.stringify(url)}`,
        'wire_api = "responses"',
        `http_headers = { "Authorization" = ${JSON.stringify(`Bearer ${key}`)} }`,
      ].join('\n'),
    },
    {
      id: 'opencode',
      ...texts.opencode,
      source: 'https://opencode.ai/docs/providers/',
      text: json({
        $schema: 'https://opencode.ai/config.json',
        model: `headroom/${model}`,
        provider: {
          headroom: {
            npm: '@ai-sdk/openai-compatible',
            name: 'Headroom',
            options: { baseURL: url, apiKey: key },
            models: {
              [model]: {
                name: model,
                limit: { context: contextTokens, output: outputTokens(contextTokens) },
              },
            },
          },
        },
      }),
    },
    {
      id: 'zed',
      label: texts.zed.label,
      where: endpoint.key ? texts.zed.whereWithKey : texts.zed.where,
      source: 'https://zed.dev/docs/ai/llm-providers',
      text: json({
        language_models: {
          openai_compatible: {
            Headroom: {
              api_url: url,
              available_models: [
                {
                  name: model,
                  display_name: model,
                  max_tokens: contextTokens,
                  capabilities: {
                    tools: true,
                    images: false,
                    parallel_tool_calls: true,
                    prompt_cache_key: false,
                  },
                },
              ],
            },
          },
        },
      }),
    },
    {
      id: 'continue',
      ...texts.continue,
      source: 'https://docs.continue.dev/customize/model-providers/top-level/openai',
      // JSON strings are valid YAML, so no name can break the file.
      text: [
        'name: Headroom',
        'version: 0.0.1',
        'schema: v1',
        'models:',
        `  - name: ${JSON.stringify(model)}`,
        '    provider: openai',
        `    model: ${JSON.stringify(model)}`,
        `    apiBase: ${JSON.stringify(url)}`,
        `    apiKey: ${JSON.stringify(key)}`,
        '    roles: [chat, edit, apply]',
        '    defaultCompletionOptions:',
        `      contextLength: ${contextTokens}`,
      ].join('\n'),
    },
    {
      id: 'cline',
      ...texts.cline,
      source: 'https://docs.cline.bot/provider-config/openai-compatible',
      text: [
        `Base URL: ${url}`,
        `API key: ${key}`,
        `Model ID: ${model}`,
        `Context window size: ${contextTokens}`,
      ].join('\n'),
    },
    {
      id: 'aider',
      ...texts.aider,
      source: 'https://aider.chat/docs/llms/openai-compat.html',
      text: [
        set('OPENAI_API_BASE', url),
        set('OPENAI_API_KEY', key),
        `aider --model ${shellQuoted(`openai/${model}`)}`,
      ].join('\n'),
    },
    {
      id: 'qwen-code',
      ...texts.qwenCode,
      source: 'https://qwenlm.github.io/qwen-code-docs/',
      text: [
        set('OPENAI_BASE_URL', url),
        set('OPENAI_API_KEY', key),
        set('OPENAI_MODEL', model),
        'qwen',
      ].join('\n'),
    },
    {
      id: 'open-webui',
      ...texts.openWebUI,
      source: 'https://docs.openwebui.com/getting-started/env-configuration/',
      text: [
        set('OPENAI_API_BASE_URL', url),
        set('OPENAI_API_KEY', key),
        'open-webui serve --port 8080',
      ].join('\n'),
    },
  ];
}

/** The longest answer that a tool may request: enough for a long edit, and most of the context is
 * left for the prompt. */
function outputTokens(contextTokens: number): number {
  return Math.min(8192, Math.floor(contextTokens / 4));
}
