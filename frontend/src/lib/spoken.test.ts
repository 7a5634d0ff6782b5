import { expect, test } from 'vitest';
import { renderBlocks } from './markdown';
import { spokenText } from './spoken';

test('an answer is spoken without its marks, buttons and hidden copies', () => {
  const element = document.createElement('div');
  element.innerHTML =
    renderBlocks(
      '# Caches\n\nThey are **fast**:\n\n- keys\n- values\n\n```js\nlet x = 1;\n```',
    ).join('') + '<p>Wait <span aria-hidden="true">x²</span><button>Copy</button>more</p>';
  expect(spokenText(element)).toBe('Caches They are fast: keys values js let x = 1; Wait more');
});
