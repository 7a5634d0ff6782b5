// Tooltips: {@attach tip('Reported by the system.')} on any element.
//
// One floating element serves the whole page. It appears when the pointer stays on an element for
// delayMs, and at once on keyboard focus. Escape closes it. The text is also the element's
// aria-description, so that screen readers say it.
import type { Attachment } from 'svelte/attachments';

const delayMs = 350;
const gap = 6;

let bubble: HTMLElement | null = null;
let owner: Element | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

/** With `reachable`, an element that is no control is a tab stop, so that keys show the text. */
export function tip(text: string, reachable = false): Attachment<HTMLElement | SVGElement> {
  return (element) => {
    if (!text) return;
    element.setAttribute('aria-description', text);
    if (reachable) element.tabIndex = 0;
    const enter = () => {
      clearTimeout(timer);
      timer = setTimeout(() => show(element, text), delayMs);
    };
    const focus = () => element.matches(':focus-visible') && show(element, text);
    const leave = () => hide(element);
    const key = (event: Event) => (event as KeyboardEvent).key === 'Escape' && hide(element);
    element.addEventListener('pointerenter', enter);
    element.addEventListener('pointerleave', leave);
    element.addEventListener('pointerdown', leave);
    element.addEventListener('focus', focus);
    element.addEventListener('blur', leave);
    element.addEventListener('keydown', key);
    if (owner === element) show(element, text);
    return () => {
      element.removeEventListener('pointerenter', enter);
      element.removeEventListener('pointerleave', leave);
      element.removeEventListener('pointerdown', leave);
      element.removeEventListener('focus', focus);
      element.removeEventListener('blur', leave);
      element.removeEventListener('keydown', key);
      // If only the text has changed, the element is attached again at once and keeps its tooltip.
      queueMicrotask(() => !element.isConnected && hide(element));
    };
  };
}

/**
 * The tooltips of many elements, from one set of listeners on the element around them: those that
 * match `selector` show what `textOf` returns. Their text is not set as a description.
 */
export function tips(
  selector: string,
  textOf: (element: Element) => string | null,
): Attachment<HTMLElement> {
  return (around) => {
    const at = (event: Event) => (event.target as Element).closest(selector);
    const showAt = (element: Element) => {
      const text = textOf(element);
      if (text) show(element, text);
    };
    const listeners: [string, (element: Element, event: Event) => void][] = [
      [
        'pointerover',
        (element) => {
          clearTimeout(timer);
          timer = setTimeout(() => showAt(element), delayMs);
        },
      ],
      ['pointerout', hide],
      ['pointerdown', hide],
      ['focusin', (element) => element.matches(':focus-visible') && showAt(element)],
      ['focusout', hide],
      ['keydown', (element, event) => (event as KeyboardEvent).key === 'Escape' && hide(element)],
    ];
    const added = listeners.map(([name, act]) => {
      const listener = (event: Event) => {
        const element = at(event);
        if (element) act(element, event);
      };
      around.addEventListener(name, listener);
      return () => around.removeEventListener(name, listener);
    });
    return () => {
      added.forEach((remove) => remove());
      if (owner && around.contains(owner)) hide(owner);
    };
  };
}

function show(element: Element, text: string): void {
  if (!element.isConnected) return;
  owner = element;
  bubble ??= makeBubble();
  bubble.textContent = text;
  bubble.hidden = false;
  const target = element.getBoundingClientRect();
  const size = bubble.getBoundingClientRect();
  const left = target.left + target.width / 2 - size.width / 2;
  const above = target.top - size.height - gap;
  bubble.style.left = `${clamp(left, 8, window.innerWidth - size.width - 8)}px`;
  bubble.style.top = `${above >= 8 ? above : target.bottom + gap}px`;
}

function hide(element: Element): void {
  clearTimeout(timer);
  if (owner !== element) return;
  owner = null;
  if (bubble) bubble.hidden = true;
}

function makeBubble(): HTMLElement {
  const made = document.createElement('div');
  made.setAttribute('role', 'tooltip');
  made.style.cssText =
    'position:fixed;z-index:100;max-width:280px;padding:5px 9px;border-radius:6px;' +
    'pointer-events:none;background:var(--surface);color:var(--text);' +
    'border:1px solid var(--line);box-shadow:var(--shadow-float);' +
    'font-size:12px;line-height:1.4;width:max-content';
  document.body.append(made);
  return made;
}

function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(value, high));
}
