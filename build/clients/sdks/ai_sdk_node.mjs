// The AI SDK, with its providers for OpenAI's two APIs, compatible servers and Anthropic's.
import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, isStepCount, Output, streamText, tool } from 'ai';
import { z } from 'zod';
import {
  cached,
  model,
  question,
  rules,
  run,
  timeAnswer,
  timeQuestion,
  timeResult,
  url,
} from './checks.mjs';

const baseURL = `${url}/v1`;
const openai = createOpenAI({ baseURL, apiKey: 'any' });
const models = {
  compatible: createOpenAICompatible({
    name: 'headroom',
    baseURL,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })(model),
  chat: openai.chat(model),
  responses: openai.responses(model),
  anthropic: createAnthropic({ baseURL, apiKey: 'any' })(model),
};
const names = Object.keys(models).join(', ');
const each = async (check) => {
  for (const [name, one] of Object.entries(models)) {
    try {
      await check({ model: one, temperature: 0, maxRetries: 0, maxOutputTokens: 200 });
    } catch (cause) {
      throw new Error(`${name}: ${cause.stack}`);
    }
  }
};

await run({
  async [`generateText and streamText (${names})`]() {
    await each(async (settings) => {
      const whole = await generateText({ ...settings, prompt: question });
      const streamed = streamText({ ...settings, prompt: question });
      assert.ok(whole.text);
      assert.equal(await streamed.text, whole.text);
      assert.ok((await streamed.usage).inputTokens > 0);
    });
  },

  async [`Output.object (${names})`]() {
    const order = z.object({
      colour: z.enum(['red', 'blue']),
      count: z.number().int().min(1).max(12),
      items: z.array(z.enum(['shirt', 'hat'])).min(1).max(3),
    });
    await each(async (settings) => {
      const { output } = await generateText({
        ...settings,
        prompt: 'I would like four large blue shirts, please.',
        output: Output.object({ schema: order }),
      });
      assert.deepEqual(order.parse(output), output);
    });
  },

  async [`a loop with a tool (${names})`]() {
    await each(async (settings) => {
      const answer = await generateText({
        ...settings,
        prompt: timeQuestion,
        stopWhen: isStepCount(4),
        tools: {
          get_time: tool({
            description: 'Get the local time in a city.',
            inputSchema: z.object({ city: z.string() }),
            async execute({ city }) {
              assert.equal(city, 'Boston');
              return timeResult;
            },
          }),
        },
      });
      assert.equal(answer.steps.length, 2);
      assert.equal(answer.text, timeAnswer);
    });
  },

  async [`a second turn from the cache (${names})`]() {
    await each(async (settings) => {
      const ask = { ...settings, system: rules };
      const messages = [{ role: 'user', content: question }];
      const first = await generateText({ ...ask, messages });
      messages.push(...first.response.messages, { role: 'user', content: 'How long is it?' });
      const { usage } = await generateText({ ...ask, messages });
      cached(usage.inputTokenDetails.cacheReadTokens, usage.inputTokens);
    });
  },
});
