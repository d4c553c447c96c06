// Stands for the page's own module, which signs users in first.
export const asUser = (act) => act();
