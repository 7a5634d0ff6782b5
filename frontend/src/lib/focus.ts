// What has the focus may leave the page: a row is deleted, a button becomes another one. The
// browser then gives the focus to the body, and a person who uses the keyboard or a screen reader
// is lost. Here it goes to a neighbour instead.

/** Where an element is, so that its neighbours are found after it has gone. */
export interface Place {
  element: HTMLElement;
  /** From the element's parent to the body, each with the index of the child that led there. */
  path: { parent: Element; index: number }[];
}

export function placeOf(element: HTMLElement): Place {
  const path: Place['path'] = [];
  for (let child: Element = element; child.parentElement; child = child.parentElement)
    path.push({
      parent: child.parentElement,
      index: Array.prototype.indexOf.call(child.parentElement.children, child),
    });
  return { element, path };
}

const controls =
  'button, input:not([type="hidden"]), select, textarea, summary, a[href], [tabindex]';

/** Whether an element can take the focus now. */
function takesFocus(element: Element): boolean {
  if (!(element instanceof HTMLElement) || !element.isConnected) return false;
  if (element.matches(':disabled') || element.closest('[hidden], [inert]')) return false;
  return element.checkVisibility?.() ?? true;
}

/** The first control in an element, the element included, that Tab reaches. */
function firstIn(element: Element): HTMLElement | null {
  const all = [element, ...element.querySelectorAll(controls)];
  const fits = (one: Element) =>
    one.matches(controls) && (one as HTMLElement).tabIndex >= 0 && takesFocus(one);
  return (all.find(fits) as HTMLElement | undefined) ?? null;
}

/**
 * The element for the focus of one that has gone: itself if it is back, the one with its id, or the
 * first control of what took its place, of what follows or of what comes before it. Where nothing
 * is left, it is the same around its parent.
 */
export function neighbourOf({ element, path }: Place): HTMLElement | null {
  if (takesFocus(element)) return element;
  const again = element.id && document.getElementById(element.id);
  if (again && takesFocus(again)) return again;
  for (const { parent, index } of path) {
    if (!parent.isConnected) continue;
    const children = [...parent.children];
    for (const child of [...children.slice(index), ...children.slice(0, index).toReversed()]) {
      const found = firstIn(child);
      if (found) return found;
    }
    if (parent.matches('main') && takesFocus(parent)) return parent as HTMLElement;
  }
  return null;
}

const isLost = () => !document.activeElement || document.activeElement === document.body;

/** Gives the focus, if nothing has it, to what had that place or to a neighbour of it. */
export function restoreFocus(place: Place): void {
  if (!isLost()) return;
  const dialog = [...document.querySelectorAll('dialog[open]')].at(-1);
  const found = neighbourOf(place);
  if (found && (!dialog || dialog.contains(found))) found.focus({ preventScroll: true });
}

/** Whether the place is in a dialog that has closed: it gives the focus back itself. */
const closed = ({ path }: Place) =>
  path.some(({ parent }) => parent.localName === 'dialog' && !parent.isConnected);

/** Keeps the focus in the page. Returns the end of it. */
export function keepFocus(): () => void {
  let place: Place | null = null;

  const came = ({ target }: FocusEvent) => {
    if (target instanceof HTMLElement && target !== document.body) place = placeOf(target);
  };
  // A click beside all controls takes the focus away on purpose.
  const went = ({ target }: FocusEvent) => {
    setTimeout(() => {
      if (isLost() && place?.element === target && takesFocus(place.element)) place = null;
    });
  };
  const search = () => {
    if (!place || !isLost() || closed(place)) return;
    // A control that is disabled for a moment gets the focus back afterwards.
    if (place.element.isConnected && place.element.matches(':disabled')) return;
    const gone = place;
    place = null; // nothing is searched twice; what gets the focus is the next place
    restoreFocus(gone);
  };
  // Not at once: while Tab moves the focus, nothing has it for a moment, and a tooltip that closes
  // then is a mutation, too.
  const observer = new MutationObserver(() => {
    if (place && isLost()) setTimeout(search);
  });
  observer.observe(document.body, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['disabled', 'hidden'],
  });
  document.addEventListener('focusin', came);
  document.addEventListener('focusout', went);
  return () => {
    observer.disconnect();
    document.removeEventListener('focusin', came);
    document.removeEventListener('focusout', went);
  };
}
