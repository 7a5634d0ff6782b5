// The settings or commands that make other programs on this machine use Headroom.
//
// Each form comes from the tool's documentation (`source`). Claude Code and Codex are not included:
// they use Anthropic's Messages and OpenAI's Responses APIs, which Headroom does not serve.
import { shellQuoted } from './snippets';

export interface Endpoint {
  /** The base URL, as http://127.0.0.1:11811/v1. */
  url: string;
  model: string;
  contextTokens: number;
  /** Empty where none is needed; most tools want some word all the same. */
  key: string;
}

export interface Tool {
  id: string;
  label: string;
  /** What to do with the text. */
  where: string;
  text: string;
  /** Its documentation of these settings. */
  source: string;
}

/** Sent where no key is needed: whatever stands there, the endpoint does not look. */
const noKey = 'headroom';

export function tools(endpoint: Endpoint): Tool[] {
  const url = endpoint.url.replace(/\/+$/, '');
  const { model, contextTokens } = endpoint;
  const key = endpoint.key || noKey;
  const json = (value: unknown) => JSON.stringify(value, null, 2);
  /** A name for the shell's environment and what it says. */
  const set = (name: string, value: string) => `export ${name}=${shellQuoted(value)}`;
  return [
    {
      id: 'opencode',
      label: 'OpenCode',
      source: 'https://opencode.ai/docs/providers/',
      where: 'Into opencode.json in your project, or ~/.config/opencode/opencode.json.',
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
      label: 'Zed',
      source: 'https://zed.dev/docs/ai/llm-providers',
      where: `Into settings.json (zed: open settings). When Zed asks for a key, give it ${endpoint.key ? 'the one set in Headroom' : 'any word'}.`,
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
      label: 'Continue',
      source: 'https://docs.continue.dev/customize/model-providers/top-level/openai',
      where: 'Into ~/.continue/config.yaml.',
      // JSON's strings are YAML's, so that no name can break the file.
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
      label: 'Cline',
      source: 'https://docs.cline.bot/provider-config/openai-compatible',
      where: 'In Cline’s settings, with “OpenAI Compatible” as API provider.',
      text: [
        `Base URL: ${url}`,
        `API key: ${key}`,
        `Model ID: ${model}`,
        `Context window size: ${contextTokens}`,
      ].join('\n'),
    },
    {
      id: 'aider',
      label: 'aider',
      source: 'https://aider.chat/docs/llms/openai-compat.html',
      where: 'Paste into a terminal, in your project’s folder.',
      text: [
        set('OPENAI_API_BASE', url),
        set('OPENAI_API_KEY', key),
        `aider --model ${shellQuoted(`openai/${model}`)}`,
      ].join('\n'),
    },
    {
      id: 'qwen-code',
      label: 'Qwen Code',
      source: 'https://qwenlm.github.io/qwen-code-docs/',
      where: 'Paste into a terminal, in your project’s folder.',
      text: [
        set('OPENAI_BASE_URL', url),
        set('OPENAI_API_KEY', key),
        set('OPENAI_MODEL', model),
        'qwen',
      ].join('\n'),
    },
    {
      id: 'open-webui',
      label: 'Open WebUI',
      source: 'https://docs.openwebui.com/getting-started/env-configuration/',
      where:
        'Paste into a terminal where Open WebUI is installed; a container would not reach this address.',
      text: [
        set('OPENAI_API_BASE_URL', url),
        set('OPENAI_API_KEY', key),
        'open-webui serve --port 8080',
      ].join('\n'),
    },
  ];
}

/** What a tool may expect of one answer: enough for a long edit, and room left for the question. */
function outputTokens(contextTokens: number): number {
  return Math.min(8192, Math.floor(contextTokens / 4));
}
