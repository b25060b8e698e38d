// A link to a section within a tab chooses that tab. Without a script the tabs work, but such a link
// leads to the first one.
(() => {
    const choose = () => {
        const id = decodeURIComponent(location.hash.slice(1));
        const target = id && document.getElementById(id);
        const tab = target && target.closest(".tabs > .tab");
        if (!tab) {
            return;
        }
        const tabs = tab.parentElement;
        const place = [...tabs.querySelectorAll(":scope > .tab")].indexOf(tab);
        tabs.querySelectorAll(":scope > input")[place].checked = true;
        target.scrollIntoView();
    };
    addEventListener("hashchange", choose);
    choose();
})();
