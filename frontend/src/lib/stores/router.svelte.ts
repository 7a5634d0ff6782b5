// Which page is shown. It is kept in the fragment (#page=chat), so that a reload stays.

export const pages = ['overview', 'chat', 'models', 'memory', 'cache', 'settings'] as const;
export type Page = (typeof pages)[number];

export class Router {
  page = $state<Page>(pageOf(location.hash));

  constructor() {
    window.addEventListener('hashchange', () => (this.page = pageOf(location.hash)));
  }

  go(page: Page): void {
    this.page = page;
    history.replaceState(null, '', `#page=${page}`);
  }
}

function pageOf(hash: string): Page {
  const wanted = new URLSearchParams(hash.slice(1)).get('page');
  return pages.find((page) => page === wanted) ?? 'overview';
}
