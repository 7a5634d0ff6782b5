// What the clients for Node.js share; checks.py says what a check is.
import assert from 'node:assert/strict';

export const url = process.env.HEADROOM_URL; // without a path
export const model = 'headroom-demo';
export const question = 'What is a KV cache?';
export const timeQuestion = 'Tell me the time in Boston.';
export const timeResult = '{"time": "01:54"}';
export const timeAnswer = 'It is 01:54 in Boston.';
export const city = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
};
export const tools = [
  {
    type: 'function',
    function: { name: 'get_time', description: 'Get the local time in a city.', parameters: city },
  },
];

// The demo model knows nothing of orders, so only a constrained answer is one; see forms.py.
export const orderQuestion = 'I would like four large blue shirts, please.';
export const orderSchema = {
  type: 'object',
  properties: {
    colour: { enum: ['red', 'blue'] },
    count: { type: 'integer', minimum: 1, maximum: 12 },
    size: { enum: ['small', 'large', null] },
  },
  required: ['colour', 'count', 'size'],
  additionalProperties: false,
};

/** Fails unless a value fits orderSchema. */
export function checkOrder(order) {
  assert.deepEqual(Object.keys(order), orderSchema.required);
  const { colour, count, size } = orderSchema.properties;
  assert.ok(colour.enum.includes(order.colour), order.colour);
  assert.ok(count.minimum <= order.count && order.count <= count.maximum, order.count);
  assert.ok(size.enum.includes(order.size), order.size);
}

// A long message, of which a second turn has at least 95 % in the cache.
export const rules = Array.from(
  { length: 100 },
  (_, i) => `Rule ${i}: a file has at most ${100 + i} lines, and a test.`,
).join('\n');

/** Fails unless at least 95 % of the tokens of a prompt were cached. */
export function cached(tokens, of) {
  assert.ok(tokens >= 0.95 * of && of > 1000, `${tokens} cached tokens of ${of}`);
}

/** Runs checks: functions by the words of the table. */
export async function run(checks) {
  for (const [words, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`did: ${words}`);
    } catch (cause) {
      process.exitCode = 1;
      console.log(`FAIL ${words}\n${cause.stack ?? cause}`);
    }
  }
}
