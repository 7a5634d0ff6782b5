// The end-to-end steps of many models, conversations and messages: no interaction may take long.
// They run against the fake server, over the built pages, in a tab of their own.
import assert from 'node:assert/strict';
import { availableParallelism, loadavg } from 'node:os';
import { until } from './helpers.mjs';
import { startFakeServer } from './fake-server.mjs';

/** The longest time from a key, click or scroll to the frame after it, and to the first paint. */
const mostMs = 100;
const paintMs = 500;
/**
 * How much longer a time may be, because other programs use the machine. The page's own work has no
 * such factor: mostMs also limits the time of its thread on a core, whatever else runs.
 */
const patience = () => Math.max(1, loadavg()[0] / availableParallelism());
/** Samples of each interaction. The least counts: the others also measure what else runs here. */
const samples = 5;

const many = { models: 10_000, conversations: 10_000, chats: 10_000, messages: 2000 };

/** Does something to the page, and returns the time until the frame that shows it. */
const timed = (page, what, selector, value) =>
  page.evaluate(
    async ([what, selector, value]) => {
      const target = document.querySelector(selector);
      if (!target) throw new Error(`there is no ${selector}`);
      const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      await frame();
      const started = performance.now();
      if (what === 'click') target.click();
      else if (what === 'scroll') target.scrollTop = value;
      else if (what === 'key')
        target.dispatchEvent(
          new KeyboardEvent('keydown', { key: value, bubbles: true, cancelable: true }),
        );
      else {
        target.value = value;
        target.dispatchEvent(new Event('input', { bubbles: true }));
      }
      await frame();
      return performance.now() - started;
    },
    [what, selector, value],
  );

const nav = (index) => `nav li:nth-of-type(${index}) button`;
const rowOf = { Models: 'model', Cache: 'cached-conversation' };

/** [name, page, what, selector, the value of sample i] */
const interactions = [
  ['models: search', 'Models', 'type', '[aria-label="Search models"]', (i) => `model-${i + 1}`],
  [
    'models: search cleared',
    'Models',
    'type',
    '[aria-label="Search models"]',
    (i) => 'x'.repeat(i % 2),
  ],
  ['models: sort', 'Models', 'click', 'th.name button', () => ''],
  ['models: arrow', 'Models', 'key', '.scroller [data-index][tabindex="0"]', () => 'ArrowDown'],
  ['models: typed', 'Models', 'key', '.scroller [data-index][tabindex="0"]', (i) => 'mgmgm'[i]],
  ['models: scroll', 'Models', 'scroll', '.scroller', (i) => (i + 1) * 30_000],
  [
    'cache: filter',
    'Cache',
    'type',
    '[aria-label="Filter conversations"]',
    (i) => `thing ${i + 1}`,
  ],
  [
    'cache: filter cleared',
    'Cache',
    'type',
    '[aria-label="Filter conversations"]',
    (i) => 'x'.repeat(i % 2),
  ],
  ['cache: sort', 'Cache', 'click', 'th:first-child button', () => ''],
  ['cache: scroll', 'Cache', 'scroll', '.scroller', (i) => (i + 1) * 30_000],
  ['chats: scroll', 'Chat', 'scroll', 'aside ul', (i) => (i + 1) * 30_000],
  ['chats: write', 'Chat', 'type', '[aria-label="Message"]', (i) => 'word '.repeat(i + 1)],
  [
    'chats: search',
    'Chat',
    'type',
    '[aria-label="Search chats"], aside [type="search"]',
    (i) => `thing ${i}`,
  ],
  ['chats: another chat', 'Chat', 'click', 'aside li:nth-of-type(3) .title', () => ''],
];

export const largeSteps = [
  [
    '10,000 models, 10,000 conversations, a chat of 2,000 messages: no interaction takes 100 ms',
    async ({ context, report }) => {
      const server = await startFakeServer(0, many);
      const page = await context.newPage();
      page.setDefaultTimeout(30_000);
      const slow = [];
      const cdp = await context.newCDPSession(page);
      await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
      /** The milliseconds that the page's thread has had on a core. */
      const worked = async () => {
        const { metrics } = await cdp.send('Performance.getMetrics');
        return 1000 * metrics.find(({ name }) => name === 'TaskDuration').value;
      };
      const least = (all) => Math.min(...all);
      const list = (all) => all.map((ms) => ms.toFixed(0)).join(', ');
      /** Counts the samples of an interaction; `prepare` runs before each and does not count. */
      const measured = async (name, sample, prepare = async () => {}) => {
        const times = [];
        const works = [];
        for (let i = 0; i < samples; i++) {
          await prepare();
          const before = await worked();
          times.push(await sample(i));
          works.push((await worked()) - before);
        }
        const limit = mostMs * patience();
        report(`${name}: ${list(times)} ms of ${limit.toFixed(0)}, work ${list(works)} ms`);
        if (least(times) > limit) slow.push(`${name}: ${least(times).toFixed(0)} ms`);
        if (least(works) > mostMs) slow.push(`${name}: ${least(works).toFixed(0)} ms of work`);
      };
      const show = async (name) => {
        await page.getByRole('navigation', { name: 'Pages' }).getByRole('button', { name }).click();
        const row = name === 'Chat' ? 'aside li .title' : `[data-testid="${rowOf[name]}"]`;
        await page.locator(row).first().waitFor();
      };
      try {
        const paints = [];
        for (let i = 0; i < samples; i++) {
          await page.goto('about:blank');
          await page.goto(server.url, { waitUntil: 'load' });
          await page.locator('main, dialog').first().waitFor();
          paints.push(
            await page.evaluate(
              () =>
                performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity,
            ),
          );
        }
        const limit = paintMs * patience();
        report(`first paint: ${list(paints)} ms of ${limit.toFixed(0)}`);
        if (least(paints) > limit) slow.push(`first paint: ${least(paints).toFixed(0)} ms`);
        if (await page.getByRole('dialog').count()) await page.keyboard.press('Escape');
        for (const name of ['Models', 'Cache', 'Chat']) await show(name);
        let at = '';
        for (const [name, where, what, selector, value] of interactions) {
          if (where !== at) await show((at = where));
          await measured(name, (i) => timed(page, what, selector, value(i)));
        }
        await page.locator('aside [type="search"]').fill('');
        await page.locator('aside ul').evaluate((list) => (list.scrollTop = 0));
        await page.locator('aside .title').filter({ hasText: 'Chat 0 about' }).click();
        await until(
          'the long chat is open',
          async () => (await page.getByTestId('answer').count()) > 1,
        );
        await measured('a chat of 2,000 messages: scroll', (i) =>
          timed(page, 'scroll', '.thread', 40_000 - i * 900),
        );
        await measured('a chat of 2,000 messages: write', (i) =>
          timed(page, 'type', '[aria-label="Message"]', 'word '.repeat(i + 1)),
        );
        for (const [index, name] of ['Overview', 'Chat', 'Models', 'Memory', 'Cache'].entries()) {
          await measured(
            `to ${name}`,
            () => timed(page, 'click', nav(index + 1)),
            () => timed(page, 'click', nav(index === 0 ? 2 : 1)),
          );
        }
        await measured('palette: typed', async (i) => {
          if (!(await page.getByRole('combobox').count())) await page.keyboard.press('Control+k');
          return timed(page, 'type', '[role="combobox"]', `model-${i}`);
        });
      } finally {
        await page.close();
        await server.close();
      }
      assert.deepEqual(slow, []);
    },
  ],
];
