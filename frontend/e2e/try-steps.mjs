// The end-to-end steps of the Try page. The code in four languages runs as pasted.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { goTo, ready, text, until } from './helpers.mjs';

const run = promisify(execFile);

const schema = {
  type: 'object',
  properties: { city: { enum: ['Oslo', 'Bergen'] }, visits: { type: 'integer', minimum: 1 } },
  required: ['city', 'visits'],
  additionalProperties: false,
};

/** How the code of a language is run, in a folder with the file. */
const programs = {
  curl: { file: 'request.sh', command: ['sh'], version: ['curl', '--version'] },
  Python: { file: 'request.py', command: ['python3'], version: ['python3', '--version'] },
  JavaScript: { file: 'request.mjs', command: ['node'], version: ['node', '--version'] },
  Go: { file: 'main.go', command: ['go', 'run'], version: ['go', 'version'] },
};

const available = ([program, ...args]) =>
  run(program, args).then(
    () => true,
    () => false,
  );

/** Resolves to the complete answer. */
async function answerText(page) {
  const answer = page.getByTestId('answer');
  await until(
    'an answer is there',
    async () =>
      (await page.getByTestId('stop').count()) === 0 && /\}$/.test(await answer.innerText()),
    60_000,
  );
  return answer.locator('code').innerText();
}

export const trySteps = [
  [
    'Try writes JSON that fits a schema, and says what is wrong with another',
    async ({ page, shot }) => {
      await goTo(page, 'Overview');
      await ready(page);
      await goTo(page, 'Try');
      await page.getByRole('button', { name: 'Run' }).click();
      const order = JSON.parse(await answerText(page));
      assert.deepEqual(Object.keys(order), ['customer', 'city', 'items']);
      assert.ok(order.customer.length <= 20, order.customer);
      const field = page.getByLabel('JSON Schema');
      await field.fill('{"type": ');
      await page.getByText('This is not JSON: ').waitFor();
      assert.ok(await page.getByRole('button', { name: 'Run' }).isDisabled());
      await field.fill('{"$ref": "#/missing"}');
      await page.getByRole('button', { name: 'Run' }).click();
      await until('the refusal names the reference', async () =>
        /#\/missing/.test(await text(page, 'answer')),
      );
      await field.fill(JSON.stringify(schema, null, 2));
      await page.keyboard.press('Control+Enter');
      const answer = JSON.parse(await answerText(page));
      assert.ok(schema.properties.city.enum.includes(answer.city), answer.city);
      assert.ok(answer.visits >= 1, answer.visits);
      await shot('try-schema-light');
    },
  ],

  [
    'Try shows a decision, and its code in four languages gives the same',
    async ({ page, shot, copied }) => {
      await page.getByRole('tab', { name: 'Decision' }).click();
      await page.getByRole('button', { name: 'Run' }).click();
      const bars = page.getByTestId('bar');
      await until('there are two bars', async () => (await bars.count()) === 2, 60_000);
      await shot('try-decision-light');
      const shown = Number(/(\d+) %/.exec(await bars.first().innerText())[1]);
      const folder = await mkdtemp(join(tmpdir(), 'headroom-try-'));
      const missing = [];
      try {
        for (const [language, { file, command, version }] of Object.entries(programs)) {
          if (!(await available(version))) {
            missing.push(language);
            continue;
          }
          await page.getByRole('tab', { name: language, exact: true }).click();
          await page.getByRole('button', { name: `Copy: ${language} code` }).click();
          const code = await until('the code is on the clipboard', async () => {
            const found = (await copied()).replaceAll('\r\n', '\n').trimEnd();
            return found === (await text(page, 'code')).trimEnd() && found;
          });
          await writeFile(join(folder, file), code);
          const [program, ...args] = command;
          const { stdout } = await run(program, [...args, file], { cwd: folder, timeout: 120_000 });
          const probability = Number(/["']?probability["']?: ?([\d.e-]+)/.exec(stdout)?.[1]);
          assert.ok(Math.abs(100 * probability - shown) <= 1, `${language}: ${stdout}`);
        }
      } finally {
        await rm(folder, { recursive: true });
      }
      return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined;
    },
  ],

  [
    'Try says which model a similarity needs',
    async ({ page }) => {
      await page.getByRole('tab', { name: 'Similarity' }).click();
      assert.match(await text(page, 'no-model'), /needs an embedding model or a reranker/);
      assert.ok(await page.getByRole('button', { name: 'Run' }).isDisabled());
      await page.getByRole('tab', { name: 'Schema' }).click();
    },
  ],
];

/** These come late, because the model stays in the list. */
export const similaritySteps = [
  [
    'Try compares texts with an embedding model, which the request loads',
    async ({ page, server, shot }) => {
      if (!server.addEmbeddingModel) return 'the test cannot add a model to this server';
      await goTo(page, 'Overview');
      await ready(page);
      await goTo(page, 'Try');
      await page.getByRole('tab', { name: 'Similarity' }).click();
      await server.addEmbeddingModel();
      await page.getByText('The request loads this model.').waitFor();
      const query = await page.getByLabel('Text', { exact: true }).inputValue();
      await page.getByLabel('Compare with').fill(`Opening hours\n${query}\nWrong passwords`);
      await page.getByRole('button', { name: 'Run' }).click();
      const bars = page.getByTestId('bar');
      await until('there are three bars', async () => (await bars.count()) === 3, 60_000);
      const scores = (await bars.allInnerTexts()).map((one) => Number(/\S+$/.exec(one)[0]));
      assert.ok((await bars.first().innerText()).startsWith(query));
      assert.equal(scores[0], 1);
      assert.ok(scores[0] > scores[1] && scores[1] >= scores[2], scores.join(' '));
      await shot('try-similarity-light');
      await page.getByLabel('Model').locator('option', { hasText: ', loaded' }).waitFor({
        state: 'attached',
      });
      await page.getByRole('tab', { name: 'Schema' }).click();
    },
  ],
];
