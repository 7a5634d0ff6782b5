// {@attach modal} opens a dialog over the page. The focus goes to its first field, or else to the
// one with data-first, and comes back when it closes.
import type { Attachment } from 'svelte/attachments';

export const modal: Attachment<HTMLDialogElement> = (dialog) => {
  const before = document.activeElement;
  if (dialog.showModal) dialog.showModal();
  else dialog.setAttribute('open', '');
  const first =
    dialog.querySelector<HTMLElement>('[data-first]') ??
    dialog.querySelector<HTMLElement>('input:not([type="hidden"]), textarea, select');
  first?.focus();
  return () => {
    // Svelte removes the dialog without closing it, which would leave the focus on the body.
    queueMicrotask(() => {
      const lost = !document.activeElement || document.activeElement === document.body;
      if (lost && before instanceof HTMLElement && before.isConnected) before.focus();
    });
  };
};
