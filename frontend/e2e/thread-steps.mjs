// The end-to-end steps of a chat as people know it: keys, Markdown, attachments, system prompt,
// versions, search, export, and a chat of thousands of messages.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { accessibilityFaults } from './axe.mjs';
import { ended, until } from './helpers.mjs';
import { views } from './looks.mjs';
import { pdfWith } from './pdf.mjs';

const field = (page) => page.getByRole('textbox', { name: 'Message' });
const titled = (page, title) =>
  page.getByRole('list', { name: 'Conversations' }).getByRole('button', { name: title });

/** Stores a conversation as another window would, and opens it. */
async function plant(page, server, id, title, messages) {
  const { origin, hash } = new URL(server.url);
  const token = new URLSearchParams(hash.slice(1)).get('token');
  const body = { revision: 0, title, updatedAt: Date.now(), from: 0, messages };
  const response = await fetch(`${origin}/control/chats/${id}`, {
    method: 'PUT',
    headers: { 'Content-Type': 'application/json', 'X-Headroom-Token': token },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, await response.text());
  await page.keyboard.press('Control+2');
  await openList(page);
  await titled(page, title).first().click();
}

/** A narrow window hides the list of conversations. */
async function openList(page) {
  const toggle = page.getByRole('button', { name: 'Conversations', exact: true });
  if (await toggle.isVisible()) await toggle.click();
}

const asked = (id, content, more = {}) => ({ id, role: 'user', content, ...more });
const answered = (id, content, more = {}) => ({
  id,
  role: 'assistant',
  content,
  model: 'headroom-demo',
  end: 'stop',
  ...more,
});

const rich = `## What is shown

A **KV cache** grows by $2 n_{layers} n_{heads} d$ values per token, so

$$
\\text{bytes} = \\sum_{i=1}^{L} 2 \\cdot h_i \\cdot d_i \\cdot \\frac{b}{8}
$$

- [x] read the prompt
- [ ] write the answer

3. third
4. fourth

| model | context | bytes per token | what that means for a long conversation | right |
|:------|:-------:|----------------:|------------------------------------------|------:|
| Qwen3-0.6B | 40,960 | 114,688 | it is small, and it fits into every Mac | 0.001 % |
| Qwen3-35B-A3B | 262,144 | 20,480 | few layers have attention at all | 12.5 % |

\`\`\`python
# The size of a cache
def bytes_per_token(layers: int, heads: int, dim: int = 128) -> float:
    return 2 * layers * heads * dim * 8.5 / 8  # "q8"
\`\`\`

> A quote with \`code\` and [a link](https://example.com/).`;

const sizes = [
  { width: 1600, height: 1000 },
  { width: 1100, height: 720 },
  { width: 800, height: 600 },
  { width: 550, height: 380 }, // 1100 x 760 at 200 %
  { width: 390, height: 844 },
];

/** Pictures in both themes and all sizes; nothing is too wide, and axe finds nothing. */
async function look(page, shot, name) {
  for (const { size, theme } of views(sizes)) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme: theme });
    await page.mouse.move(1, 1);
    await shot(`${name}-${size.width}-${theme}`);
    const wider = await page.evaluate(() => {
      const boxes = [...document.querySelectorAll('section form, section header, .thread')];
      const inside = boxes.flatMap((box) => [...box.querySelectorAll('button, select')]);
      const beyond = inside.filter(
        (one) => one.getClientRects().length > 0 && one.getBoundingClientRect().right > innerWidth,
      );
      return [
        document.documentElement.scrollWidth - innerWidth,
        ...beyond.map((one) => one.textContent || one.ariaLabel),
      ];
    });
    assert.deepEqual(wider.slice(1), [], `${name} at ${size.width} px`);
    assert.ok(wider[0] <= 0, `${name} at ${size.width} px is ${wider[0]} px too wide`);
    assert.deepEqual(await accessibilityFaults(page), [], `${name}, ${theme}, ${size.width} px`);
  }
  await page.setViewportSize(sizes[1]);
}

export const threadSteps = [
  [
    'an answer shows formulas, colours, tasks and tables that scroll',
    async ({ page, server, shot, copied }) => {
      await plant(page, server, 'rich', 'Rich', [
        asked('1', `Show me all of it.\n\n${'A line of a long question.\n'.repeat(30)}`),
        answered('2', rich, {
          reasoning: 'First **think**, then $x^2$.',
          reasoningTokens: 9,
          reasoningSeconds: 1,
          stats: {
            promptTokens: 7000,
            cachedTokens: 6900,
            answerTokens: 420,
            tokensPerSecond: 41.2,
            firstTokenSeconds: 0.3,
          },
        }),
        asked('3', 'Thanks!'),
        answered('4', 'You are welcome.'),
      ]);
      await page.locator('.katex-display').waitFor();
      await page.locator('.hljs-keyword').first().waitFor();
      assert.equal(await page.locator('.markdown input[type=checkbox]').count(), 2);
      assert.equal(await page.locator('.markdown ol').getAttribute('start'), '3');
      await page.getByText('Thought, 9 tokens').click();
      await page.getByTestId('reasoning').locator('strong').waitFor();
      await page.locator('.code').getByRole('button', { name: 'Copy' }).click();
      await until('the code is on the clipboard', async () =>
        (await copied()).startsWith('# The size of a cache\ndef bytes_per_token('),
      );
      const fold = page.getByRole('button', { name: 'Show all' });
      await fold.click();
      await page.getByRole('button', { name: 'Show less' }).click();
      await look(page, shot, 'thread');
      await page.setViewportSize({ width: 390, height: 844 });
      const table = page.locator('.markdown .table');
      const scrolls = await table.evaluate((one) => {
        one.scrollLeft = 1000;
        return [one.scrollLeft > 0, getComputedStyle(one.querySelector('td')).overflowWrap];
      });
      assert.deepEqual(scrolls, [true, 'normal']);
      await page.setViewportSize(sizes[1]);
    },
  ],

  [
    'Return sends, Shift-Return begins a line, and the keyboard reaches everything',
    async ({ page }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByRole('heading', { name: /^Ask / }).waitFor();
      assert.equal(
        await page.evaluate(() => document.activeElement.ariaLabel),
        'Message',
        'the field has the focus',
      );
      await page.keyboard.type('What is 76 - 27?');
      await page.keyboard.press('Shift+Enter');
      assert.equal(await field(page).inputValue(), 'What is 76 - 27?\n');
      await page.keyboard.press('Backspace');
      await page.keyboard.press('Enter');
      await ended(page);
      assert.equal(await field(page).inputValue(), '');
      await page.getByTestId('context').getByText('%').waitFor();
      // Edit by the keyboard alone: the version before stays.
      await page.getByRole('button', { name: 'Edit this question' }).focus();
      await page.keyboard.press('Enter');
      await page.keyboard.press('Control+A');
      await page.keyboard.type('What is 58 - 19?');
      await page.keyboard.press('Enter');
      await until('the answer is 39', async () =>
        /39/.test(await page.getByTestId('answer').innerText()),
      );
      await ended(page);
      await page.getByTestId('versions').getByText('2 of 2').waitFor();
      await page.getByRole('button', { name: 'Previous version' }).click();
      await page.getByTestId('question').getByText('What is 76 - 27?').waitFor();
      assert.match(await page.getByTestId('answer').innerText(), /49/);
    },
  ],

  [
    'an answer of another model is a version beside the first',
    async ({ page, server, shot }) => {
      if (server.isFake) return 'the fake models cannot be loaded on request';
      const others = page.getByRole('button', { name: 'Retry with another model' });
      await others.last().focus();
      await page.keyboard.press('Enter');
      const menu = page.getByRole('menu', { name: 'Retry with another model' });
      await menu.waitFor();
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('Escape');
      await menu.waitFor({ state: 'detached' });
      await page.keyboard.press('Enter');
      await menu.getByRole('menuitem').first().waitFor();
      await shot('retry-menu');
      assert.deepEqual(await accessibilityFaults(page), []);
      await menu.getByRole('menuitem').first().click();
      const versions = page.getByTestId('answer').getByTestId('versions');
      await versions.getByText('2 of 2').waitFor({ timeout: 60_000 });
      await ended(page);
      await page.reload();
      await versions.getByText('2 of 2').waitFor();
    },
  ],

  [
    'texts and PDFs are attached by choosing, dropping and pasting',
    async ({ page, shot }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      const files = page.locator('form input[type=file]');
      await files.setInputFiles([
        { name: 'notes.md', mimeType: 'text/markdown', buffer: Buffer.from('# Buy milk\n') },
        {
          name: 'report.pdf',
          mimeType: 'application/pdf',
          buffer: pdfWith(['Ada gave a lamp to Ben.', 'Page two says more.']),
        },
      ]);
      const attached = page.getByTestId('attachment');
      await until('both are attached', async () => (await attached.count()) === 2, 60_000);
      await attached.getByText('2 pages').waitFor();
      const hand = (kind) =>
        page.evaluate((event) => {
          const data = new DataTransfer();
          data.items.add(new File([`from ${event}`], `${event}.txt`, { type: 'text/plain' }));
          const target = document.querySelector('form textarea');
          target.dispatchEvent(
            event === 'drop'
              ? new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true })
              : new ClipboardEvent('paste', {
                  clipboardData: data,
                  bubbles: true,
                  cancelable: true,
                }),
          );
        }, kind);
      await hand('drop');
      await attached.getByText('drop.txt').waitFor();
      await hand('paste');
      await attached.getByText('paste.txt').waitFor();
      await files.setInputFiles([
        { name: 'photo.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 1]) },
      ]);
      await page.getByText('photo.png cannot be attached').waitFor();
      await look(page, shot, 'attachments');
      await page.getByRole('button', { name: 'Remove: paste.txt' }).click();
      const sent = page.waitForRequest((one) => one.url().endsWith('/v1/chat/completions'));
      await field(page).fill('What is 31 - 12?');
      await page.keyboard.press('Enter');
      const [{ content }] = (await sent).postDataJSON().messages;
      assert.match(content, /^<file name="notes\.md">\n# Buy milk\n<\/file>/);
      assert.match(content, /Ada gave a lamp to Ben\.[^]*Page two says more\./);
      assert.match(content, /from drop[^]*What is 31 - 12\?$/);
      assert.doesNotMatch(content, /from paste/);
      await ended(page);
      assert.equal(await page.getByTestId('question').getByTestId('attachment').count(), 3);
    },
  ],

  [
    'a system prompt and a preset belong to their chat',
    async ({ page, shot }) => {
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByRole('button', { name: 'System prompt' }).click();
      const sheet = page.getByRole('dialog', { name: 'Answer settings' });
      await sheet.getByLabel('System prompt').fill('Answer with one word.');
      await sheet.getByLabel('System prompt').blur();
      await sheet.getByRole('button', { name: 'Save as Preset…' }).click();
      await page.keyboard.type('One word');
      await page.keyboard.press('Enter');
      await sheet.getByLabel('Preset', { exact: true }).waitFor();
      await look(page, shot, 'setup');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Preset: One word' }).waitFor();
      const sent = page.waitForRequest((one) => one.url().endsWith('/v1/chat/completions'));
      await field(page).fill('Hello');
      await page.keyboard.press('Enter');
      assert.deepEqual((await sent).postDataJSON().messages[0], {
        role: 'system',
        content: 'Answer with one word.',
      });
      await ended(page);
      await page.reload();
      await page.getByRole('button', { name: 'Preset: One word' }).waitFor();
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByRole('button', { name: 'System prompt' }).waitFor();
    },
  ],

  [
    'a chat of 2,000 messages opens, scrolls, searches and is typed in within 100 ms',
    async ({ page, context, server, shot, report }) => {
      const messages = Array.from({ length: 1000 }, (_, i) => [
        asked(`q${i}`, `Question ${i}: what is said of lamp ${i}?`),
        answered(`a${i}`, `${rich}\n\nAnswer ${i}.`),
      ]).flat();
      await plant(page, server, 'many', 'Many', messages);
      await page.getByText('Answer 999.').waitFor();
      await page.locator('.katex-display').last().waitFor();
      await page.getByRole('button', { name: 'New chat' }).click();
      await page.getByRole('heading', { name: /^Ask / }).waitFor();
      const measure = await stopwatch(page, context);
      const times = {};
      times.open = await measure(() => {
        [...document.querySelectorAll('aside li .title')]
          .find((one) => one.textContent.includes('Many'))
          .click();
      });
      await page.getByText('Answer 999.').waitFor();
      times.type = await measure(() => {
        const text = document.querySelector('form textarea');
        text.value = 'abc';
        text.dispatchEvent(new Event('input', { bubbles: true }));
      });
      for (let i = 0; i < 12; i++) {
        const one = await measure(() => {
          document.querySelector('.thread').scrollTop -= 1500;
        });
        if (i === 0 || one.thread > times.scroll.thread) times.scroll = one;
      }
      await page.keyboard.press('Control+F');
      const find = page.getByRole('searchbox', { name: 'Find in this chat' });
      await find.waitFor();
      times.find = await measure(() => {
        const input = document.querySelector('.find input');
        input.value = 'answer 7.';
        input.dispatchEvent(new Event('input', { bubbles: true }));
      });
      await page.getByText('1 of 1', { exact: true }).waitFor();
      const found = page.locator('[data-index="15"]').getByText('Answer 7.');
      await found.waitFor();
      await until('the match is in view', () => found.isVisible());
      await find.fill('lamp 99');
      await page.getByText('11 of 11').waitFor();
      await find.press('Enter');
      await page.getByText('1 of 11').waitFor();
      await page.locator('[data-index="198"]').waitFor();
      await shot('find');
      assert.deepEqual(await accessibilityFaults(page), []);
      await find.press('Escape');
      await find.waitFor({ state: 'detached' });
      await page.getByRole('button', { name: 'Scroll to the end' }).click();
      await page.getByText('Answer 999.').waitFor();
      assert.ok((await page.locator('[data-index]').count()) <= 120, 'few are in the page');
      report(`2,000 messages: ${JSON.stringify(times)} ms`);
      const slow = Object.entries(times).filter(([, { thread }]) => thread > 100);
      assert.deepEqual(slow, []);
      await page.getByRole('button', { name: 'Delete: Many' }).click();
      await titled(page, /^Many/).waitFor({ state: 'detached' });
    },
  ],

  [
    'a chat is exported as Markdown and as JSON; the end of the context is announced',
    async ({ page, server, shot }) => {
      const contextTokens = 32_768;
      await plant(page, server, 'full', 'Nearly full', [
        asked('1', 'A long one'),
        answered('2', 'Yes.', {
          stats: { promptTokens: contextTokens * 4, answerTokens: 9 },
        }),
      ]);
      await page.getByText('Nearly full').first().waitFor();
      const exported = async (name) => {
        await page.getByRole('button', { name: 'More' }).click();
        const download = page.waitForEvent('download');
        await page.getByRole('menuitem', { name }).click();
        const file = await download;
        return [file.suggestedFilename(), await readFile(await file.path(), 'utf8')];
      };
      const [name, text] = await exported('Export as Markdown…');
      assert.equal(name, 'Nearly-full.md');
      assert.match(text, /^# Nearly full\n\n## You\n\nA long one\n\n## Answer \(headroom-demo\)/);
      const [, json] = await exported('Export as JSON…');
      assert.equal(JSON.parse(json).messages[0].content, 'A long one');
      await page.getByText(/This question does not fit/).waitFor();
      await look(page, shot, 'context');
    },
  ],
];

/**
 * Measures actions in the page, from the action to the frame that shows its effect: milliseconds on
 * the clock, and of the page's thread, which a busy machine does not lengthen.
 */
async function stopwatch(page, context) {
  const line = await context.newCDPSession(page);
  await line.send('Performance.enable', { timeDomain: 'threadTicks' });
  const threadMs = async () => {
    const { metrics } = await line.send('Performance.getMetrics');
    return 1000 * metrics.find(({ name }) => name === 'ThreadTime').value;
  };
  return async (action) => {
    const before = await threadMs();
    const clock = await page.evaluate(async (source) => {
      const run = new Function(`(${source})()`);
      const started = performance.now();
      run();
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      return performance.now() - started;
    }, action.toString());
    return { clock: Math.round(clock), thread: Math.round((await threadMs()) - before) };
  };
}
