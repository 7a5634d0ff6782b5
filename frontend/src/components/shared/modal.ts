// {@attach modal} opens a dialog over the page. The focus goes to its first field, or else to the
// one with data-first. When it closes, it comes back, to a neighbour if what opened it has gone.
import { placeOf, restoreFocus } from '../../lib/focus';
import type { Attachment } from 'svelte/attachments';

export const modal: Attachment<HTMLDialogElement> = (dialog) => {
  const { activeElement } = document;
  const opener = activeElement === document.body ? document.querySelector('main') : activeElement;
  const before = opener instanceof HTMLElement ? placeOf(opener) : null;
  if (dialog.showModal) dialog.showModal();
  else dialog.setAttribute('open', '');
  const first =
    dialog.querySelector<HTMLElement>('[data-first]') ??
    dialog.querySelector<HTMLElement>('input:not([type="hidden"]), textarea, select');
  first?.focus();
  return () => {
    // Svelte removes the dialog without closing it, which would leave the focus on the body.
    queueMicrotask(() => before && restoreFocus(before));
  };
};
