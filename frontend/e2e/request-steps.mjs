// The end-to-end steps of the Requests list: names, colours, marks, and the headline.
import assert from 'node:assert/strict';
import { accessibilityFaults } from './axe.mjs';
import { goTo, sentences, until } from './helpers.mjs';
import { views } from './looks.mjs';

/** The widths of issue 21: a phone, a small and a usual window, a large one, and 200 % zoom. */
const widths = [390, 800, 1100, 1600, 550];

async function post(server, content, headers = {}, more = {}) {
  const response = await fetch(new URL('/v1/chat/completions', server.url), {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body: JSON.stringify({
      model: 'headroom-demo',
      messages: [{ role: 'user', content }],
      max_tokens: 4,
      ...more,
    }),
  });
  assert.equal(response.status, 200, await response.clone().text());
  await response.text();
}

/** A colour of the palette, as computed styles write it. */
const colour = (page, name) =>
  page.evaluate((name) => {
    const probe = document.createElement('span');
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }, name);

const fill = (row, part) =>
  row.locator(`.bar .${part}`).evaluate((one) => getComputedStyle(one).backgroundColor);

export const requestSteps = [
  [
    'requests have first words, client and model; private ones are not listed',
    async ({ page, server }) => {
      if (server.isFake) return 'the fake server reads no User-Agent';
      await goTo(page, 'Cache');
      await page.getByRole('tab', { name: 'Requests' }).click();
      await post(server, `Secret plans. ${sentences(4)}`, {}, { cache: 'memory' });
      await post(server, `Plan a trip to Evora. ${sentences(4)}`, { 'User-Agent': 'curl/8.5.0' });
      await post(server, `Plan a trip to Tavira. ${sentences(4)}`, { 'X-Title': 'Zed' });
      const rows = page.getByTestId('finished');
      await rows.filter({ hasText: 'Plan a trip to Tavira.' }).first().waitFor();
      const line = (text) => rows.filter({ hasText: text }).first().innerText();
      assert.match(await line('Plan a trip to Tavira.'), /Zed, headroom-demo, /);
      assert.match(await line('Plan a trip to Evora.'), /curl, headroom-demo, /);
      assert.equal(await rows.filter({ hasText: 'Secret' }).count(), 0);
      assert.equal(await rows.filter({ hasText: /Private|Untitled/ }).count(), 0);
    },
  ],

  [
    'reused tokens are teal, those computed again amber, and only a costly miss is marked',
    async ({ page, server }) => {
      if (server.isFake) return 'the fake server has no cache to miss';
      // Long: what follows the changed minute is computed again. Short: it costs nothing.
      for (const minute of [3, 4])
        await post(server, `It is 2026-11-20 11:0${minute}. ${sentences(60)}`);
      for (const minute of [5, 6]) await post(server, `At 2026-11-21 12:0${minute} we eat.`);
      await post(server, `It is 2026-11-20 11:04. ${sentences(60)}`);
      const rows = page.getByTestId('finished');
      const first = (text) => rows.filter({ hasText: text }).first();
      await first('12:06').waitFor();
      const missed = rows.filter({ hasText: '11:04' }).filter({ hasText: 'date or time' }).first();
      await missed.waitFor();
      assert.equal(await missed.locator('.mark').count(), 1, 'the costly miss is marked');
      assert.equal(await first('12:06').locator('.mark').count(), 0, 'the short one is not');
      assert.equal(await fill(missed, 'again'), await colour(page, '--again'));
      const reused = rows.filter({ hasText: '11:04' }).first();
      await reused.locator('.bar .memory').waitFor();
      assert.equal(await fill(reused, 'memory'), await colour(page, '--accent'));
      assert.equal(await reused.locator('.bar .again').count(), 0);
      assert.match(
        (await page.getByTestId('reuse').innerText()).replace(/ <?\d+ % computed again\.$/, ''),
        /^\d+ % of [\d,]+ tokens reused: (<?\d+) % from memory, (<?\d+) % from disk\.$/,
      );
      assert.match(await page.getByTestId('reused').innerText(), /memory <?\d+ %, disk <?\d+ %/);
    },
  ],

  [
    'a request is opened by the keyboard alone',
    async ({ page }) => {
      await page.keyboard.press('Control+1');
      await page.keyboard.press('Control+5');
      await until('the focus is on the page', () =>
        page.evaluate(() => document.activeElement?.tagName === 'MAIN'),
      );
      assert.equal(await page.title(), 'Cache – Headroom');
      const focused = () =>
        page.evaluate(() => {
          const { innerText, outerHTML } = document.activeElement;
          return `${document.activeElement.getAttribute('role')} ${innerText} ${outerHTML}`;
        });
      for (let i = 0; i < 12 && !/^tab /.test(await focused()); i++)
        await page.keyboard.press('Tab');
      for (let i = 0; i < 3 && !/^tab Requests/.test(await focused()); i++)
        await page.keyboard.press('ArrowRight');
      await page.keyboard.press('Enter');
      for (let i = 0; i < 9 && !/aria-expanded/.test(await focused()); i++)
        await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await page.getByTestId('cache-miss').waitFor();
      await page.keyboard.press('Enter');
      await page.getByTestId('cache-miss').waitFor({ state: 'detached' });
    },
  ],

  [
    'the list of requests at every width, light and dark, without accessibility errors',
    async ({ page, shot }) => {
      const faults = [];
      await page.getByTestId('finished').first().getByRole('button').click();
      const sizes = widths.map((width) => ({ width, height: width < 600 ? 844 : 720 }));
      for (const { size, theme } of views(sizes)) {
        const { width } = size;
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme: theme });
        await page.mouse.move(1, 1); // no tooltip
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wider <= 0, `${width} px is ${wider} px too wide`);
        const cut = await page.getByTestId('finished').evaluateAll((rows) =>
          rows
            .flatMap((row) => [...row.querySelectorAll('.line > span, .line .figure > span')])
            .filter((part) => part.scrollWidth > part.clientWidth + 1)
            .map((part) => part.className),
        );
        assert.deepEqual(cut, [], `columns are cut at ${width} px`);
        await shot(`requests-${width}-${theme}`);
        faults.push(
          ...(await accessibilityFaults(page)).map((fault) => `${width}, ${theme}: ${fault}`),
        );
      }
      await page.setViewportSize({ width: 1100, height: 720 });
      await page.emulateMedia({ colorScheme: 'light' });
      await page.getByTestId('finished').first().getByRole('button').first().click();
      await page.getByRole('tab', { name: 'Conversations' }).click();
      assert.deepEqual(faults, []);
    },
  ],
];
