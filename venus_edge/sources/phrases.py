"""WORDS BY WHICH PAGES GIVE THEMSELVES AWAY that are not the page: what `notpage` looks for, one pattern a line.

Literal data, in the languages this agent reads most. A pattern is matched without regard to case.
"""

from __future__ import annotations

import re

_PARTS = {  # what the patterns below abbreviate: where a part of a title begins and ends, and a missing page
    "EDGE": r"(?:^|[|·•–—:»_\n-]\s*)",
    "STOP": r"\s*[.!。！]?(?:$|\s*[|·•–—:«_\n-])",
    "PAGE": r"(?:page|file|document|article|content|item|url)s?",
    "THING": r"(?:product|topic|thread|post|listing|video|question|profile)",
    "MISSING": r"(?: could| was| is| can| does)?(?: ?not?| ?non|n['’]t)(?: be)? ?(?:found|exist|available|there)",
}


def _any(lines: str) -> re.Pattern[str]:
    """One pattern out of one a line."""
    joined = "|".join(f"(?:{line.strip()})" for line in lines.strip().splitlines())
    for name, part in _PARTS.items():
        joined = joined.replace(name, part)
    return re.compile(joined, re.I)


BOT_TITLE = _any(
    r"""
    EDGE(?:just a moment|attention required|robot check|security (?:check|verification)|one (?:more|last) step)
    EDGE(?:are you (?:a )?(?:human|robot)|verify(?:ing)? (?:that )?you are (?:a )?human|human verification)
    EDGE(?:access (?:to this page has been )?denied|ddos[- ]?guard|pardon our interruption|captcha|bot verification)
    安全验证|安全驗證|人机验证|人機驗證|访问验证|请稍候|验证码|滑动验证
    ロボットでは|アクセス確認|보안 확인|자동입력 방지|проверка браузера
    """
)
BOT_BODY = _any(
    r"""
    checking (?:if the site connection is secure|your browser)|enable javascript and cookies|ray id|cloudflare
    verify (?:that )?you are (?:a )?(?:human|not a robot)|not a robot|captcha|human|automated
    unusual (?:traffic|activity)|blocked|permission to access
    验证|驗證|机器人|異常|异常|ロボット|認証|로봇|робот|проверк
    """
)
BOT_ALONE = _any(
    r"""
    checking your browser before|verify(?:ing)? (?:that )?you are (?:a )?human|please solve
    (?:complete|solve) (?:the|this) captcha|prove you(?:'|’)?(?: a)?re not a robot|are you a robot\?
    our systems have detected unusual traffic|enable javascript and cookies to continue
    incapsula incident|request unsuccessful\. incapsula
    请完成(?:下方|以下|安全)?验证|拖动.{0,6}滑块|滑块.{0,6}验证|访问过于频繁|请输入验证码|通常と異なるトラフィック
    """
)

MISSING_TITLE = _any(
    r"""
    EDGE(?:error\s*)?(?:404|410)(?:\s*[-–:|]?\s*(?:error|page|file|not found|gone).*)?STOP
    EDGE(?:(?:sorry|oops|uh[- ]oh)[,!.…\s]*)?(?:the |this |that |we )?PAGE(?: you(?:'re| are) looking for)?MISSINGSTOP
    (?:couldn['’]t|could not|can['’]t|cannot) find (?:that|the|this|your) PAGE
    EDGETHINGMISSINGSTOP
    EDGE(?:http )?(?:not found|nothing found|page missing|no longer available)STOP
    页面不存在|找不到(?:该|此|您要的|你要的)?(?:页面|网页|文件|内容)|页面(?:未找到|找不到|没有找到|已删除|走丢了)
    無法找到|頁面不存在|找不到(?:您|你)?.{0,6}頁|(?:文章|内容|帖子|主题)(?:不存在|已被删除|已删除)
    ページが?(?:見つかりません|存在しません|ありません)|페이지를 찾을 수 없|(?:страница|документ) не найден
    seite (?:wurde )?nicht gefunden|page (?:introuvable|non trouvée)|p[áa]gina no encontrada
    p[áa]gina n[ãa]o encontrada|pagina non trovata|pagina niet gevonden
    """
)
MISSING_BODY = _any(
    r"""
    PAGE [^.]{0,60}(?:could not|cannot|can['’]t|was not|is not) (?:be )?(?:found|available)
    PAGE [^.]{0,60}(?:does not|doesn['’]t|no longer) (?:exists?|available)
    ^\W*(?:error )?404\b
    (?:requested|specified|this|that|the) (?:\w+ )?THING\b[^.]{0,20}(?:does not exist|doesn['’]t exist)
    (?:requested|specified|this|that|the) (?:\w+ )?THING (?:is )?no longer (?:exists?|available)
    (?:requested|specified|this|that|the) (?:\w+ )?THING (?:has been|was) (?:removed|deleted)
    (?:主题|帖子|商品|视频|用户|内容|文章).{0,6}(?:不存在|已被.{0,6}删除|已下架)
    (?:页面|网页|文章|内容).{0,8}(?:不存在|找不到|已删除|已被删除)|ページ.{0,6}見つかりません
    страница не найдена|nicht gefunden|introuvable
    """
)

ERROR_TITLE = _any(
    r"""
    EDGE(?:error\s*)?(?:5\d\d|403|401|429)\b.{0,40}(?:error|unavailable|gateway|forbidden|time-?out|denied|requests)STOP
    EDGE(?:internal server error|service (?:temporarily )?unavailable|bad gateway|gateway time-?out|forbidden)STOP
    EDGE(?:too many requests|web server is down|application error|database error|scheduled maintenance)STOP
    EDGE(?:(?:site|we) (?:is |are )?(?:under|down for) maintenance|under maintenance)STOP
    server error in '/|error establishing a database connection
    服务器(?:内部)?错误|系统维护|网站维护|伺服器錯誤|系统繁忙|サーバーエラー|メンテナンス中|ошибка сервера
    """
)

ERROR_BODY = _any(
    r"""
    EDGE\W*(?:php )?(?:fatal|parse) error\W{1,4}(?:uncaught|syntax|call to|allowed memory)
    EDGE\W*(?:http )?(?:error )?5\d\d\W{0,3}(?:internal server error|bad gateway)STOP
    EDGE\W*(?:http )?(?:error )?5\d\d\W{0,3}(?:service unavailable|gateway time-?out)STOP
    EDGE\W*(?:系统|系統|服务器|伺服器)(?:繁忙|错误|錯誤|异常|異常)\W{0,2}请?請?(?:稍后|稍後|稍候)再?[试試]?STOP
    """
)

PARKED_BODY = _any(
    r"""
    (?:this )?domain(?: name)?(?: \S+)? (?:is|may be) (?:for sale|parked|available for purchase)|buy this domain
    domain (?:parking|is parked)|the domain \S+ (?:is|has)(?: been)? (?:for sale|registered|expired)
    page is parked\b|if you see this page, the \w+ web server is successfully installed|apache2? \w+ default page
    (?:域名|网站).{0,6}(?:未|没有)备案
    (?:域名|網域|网域).{0,6}(?:出售|转让|停放|已过期)|ドメインは.{0,12}(?:販売|取得)
    """
)

LOGIN_TITLE = _any(
    r"""
    EDGE(?:please )?(?:sign|log)[ -]?in(?: (?:to|with|required|/|or|-)[^\n|]{0,40})?STOP
    EDGE(?:member |user |account )?loginSTOP
    EDGE(?:用户|用戶|会员|會員|账号|帐号)?(?:登录|登陆|登錄|登入)STOP|EDGEログインSTOP|EDGE로그인STOP
    EDGE(?:anmelden|anmeldung|connexion|se connecter|iniciar sesi[óo]n|вход|accedi|entrar)STOP
    """
)
LOGIN_BODY = _any(
    r"""
    (?:log|sign)[ -]?in (?:to|or|and)[^.]{0,40}(?:continue|read|view|access|see)
    you (?:must|need to|have to) (?:be logged in|(?:log|sign) in)|already a (?:subscriber|member)
    (?:subscribe|register)[^.]{0,40}to (?:continue|keep) reading|(?:subscribe|register)(?: now)? to read (?:this|the)
    (?:article|story|content) is (?:only |exclusively )?(?:for|available to|reserved for) (?:\w+ )?subscribers
    (?:订阅|付费|开通会员).{0,6}(?:阅读|查看|继续)|(?:会员|订阅者|付费)专享
    (?:登录|登陆|登錄|登入).{0,6}(?:后|後|查看|阅读|閱讀|继续|繼續)|请先?(?:登录|登陆)|請先?登[入錄]
    ログインして|로그인이 필요|войдите
    """
)
LOGIN_FIELD = _any(
    r"""
    (?:log|sign)[ -]?(?:in|up)|password|account|anmeld|connexion|вход|парол|contraseñ
    登[录陆入錄]|密码|密碼|ログイン|パスワード|로그인
    """
)

CONSENT_TITLE = _any(
    r"""
    before you continue|we value your privacy|your privacy|privacy (?:choices|settings|preferences)
    cookies?\b.{0,30}(?:consent|settings|preferences|notice|wall)
    (?:consent|manage|accept).{0,30}(?:cookies?|choices|privacy)
    we use cookies|this (?:site|website) uses cookies|^\W*(?:cookies?|consent|privacy)\W*$
    隐私(?:设置|声明|提示)|隱私|Cookie.{0,6}(?:设置|设定|同意|提示)|您的隐私|同意.{0,10}继续|クッキー|プライバシー
    Bevor (?:Sie|du)|Datenschutz(?:einstellungen)?|Privatsphäre|avant de continuer|vie privée
    antes de continuar|privacidad|прежде чем|конфиденциальн
    """
)
CONSENT = _any(
    r"""
    \bcookies?\b|\bconsent\b|\bpartners?\b|\bpersonal(?:i[sz]ed)? (?:data|ads?|content)|\bprivacy\b|\btracking\b
    \baccept(?: all)?\b|\breject(?: all)?\b|\blegitimate interest|\bad(?:vertising)? (?:and content )?measurement
    \bstore and(?:/or)? access information
    隐私|隱私|个人信息|個人資料|同意|广告|合作伙伴|プライバシー|同意する|クッキー|쿠키|개인정보
    Einwilligung|Datenschutz|akzeptieren|données personnelles|accepter|politique de confidentialité
    privacidad|aceptar|персональн|согласи|конфиденциальн
    """
)
ADDRESSED = _any(  # a wall speaks to its reader, or has a button; an article about walls need not
    r"""
    \b(?:we|our|us|you|your|accept|agree|reject|allow|manage)\b
    \b(?:wir|unsere?[nmrs]?|ihre?[nmrs]?|akzeptieren|zustimmen|ablehnen|nous|nos|notre|vos|votre|accepter|refuser)\b
    \b(?:nosotros|nuestr[oa]s?|usted|aceptar|rechazar|noi|nostr[ie]|accett[oa]|accettare|rifiuta|nós|noss[oa]s?)\b
    \b(?:aceitar|wij|onze|accepteren|akkoord|vi|våra|godkänn|accepter|my|nasi|akceptuj\w*|biz|kabul)\b
    \b(?:мы|наш\w*|вы|ваш\w*|принять|согла\w+)\b
    我们|我們|您|你|本(?:网|網)?站|接受|同意|当社|弊社|当サイト|お客様|私たち|あなた|저희|당사|귀하|사용자|동의|수락
    """
)

LOADING = _any(
    r"""
    \W*(?:(?:now )?loading|please wait)(?:[\s.…,]*(?:please wait|the page|content|app))?[\s.…!]*
    \W*(?:正在加载|加载中|載入中|读取中|请稍[候等]|請稍候|[\s，,.…。])+
    \W*(?:読み込み中|ロード中|로딩\s?중|загрузка|chargement(?: en cours)?|wird geladen|cargando)[\s.…。]*
    """
)
NEEDS_SCRIPT = _any(
    r"""
    (?:enable|turn on|activate|requires?|need|without|supports?|use)[^.]{0,40}javascript
    javascript[^.]{0,60}(?:disabled|required|enabled?|not (?:supported|available)|turned off|to (?:run|view|use))
    (?:启用|开启|啟用|開啟|打开|需要|不支持|不支援).{0,12}javascript|javascript.{0,20}(?:禁用|停用|关闭|支持|启用)
    javascript.{0,20}(?:無効|有効|必要)|(?:aktivieren|activer|activez|включите).{0,20}javascript
    """
)
