"""English cue patterns for query analysis; ``cues`` compiles them, on folded text."""

from __future__ import annotations

_MORE = (
    "better|worse|more|less|fewer|cheaper|costlier|faster|slower|higher|lower|older|younger|bigger"
    "|larger|smaller|greater|longer|shorter|earlier|later|newer|stronger|weaker|safer|easier|harder"
    "|lighter|heavier|quieter|louder|warmer|cooler|hotter|colder|taller|wider|thinner|thicker"
    "|richer|poorer|simpler|cleaner|closer|nearer|deeper|farther|brighter|darker|broader"
)
_KINDS = (
    "features?|functions?|topics?|subjects?|options|kinds|types|sorts|categories|ways|methods"
    "|resources|documents|materials|articles|characters|measures|tools|benefits|risks|challenges"
    "|areas|aspects|alternatives|examples|policies|rules|programs|programmes|services|courses"
    "|products|themes|effects|symptoms|requirements|things|places|books"
)
PAPERS = (
    "manual|datasheet|data sheet|release notes|changelog|minutes|handbook|invoice|contract|brochure"
    "|agreement|form|template|letter|memo|certificate|specifications?|spec|transcript|slides|lease"
    "|syllabus|leaflet|speech|agenda|presentation|receipt|spreadsheet|checklist|press release"
    "|schematic|drawing|blueprint|curriculum|user guide|instructions|white ?paper|appendix"
)
_FOUND = (
    f"{PAPERS}|page|paragraph|passage|section|clause|chapter|file|document|e-?mail|record|entry"
    "|ticket|article|policy|scene|quote|report|photo|◊"
)
_ATTRIBUTES = (
    "number|address|password|price|cost|fee|deadline|date|limit|temperature|pressure|weight|size"
    "|power|revenue|capacity|speed|maximum|minimum|salary|e-?mail|age|length|height|width|duration"
    "|warranty|budget|rate|name|author|owner|population|hours|times?|schedule|dose|dosage"
)
END = r"[\s?？。.!！]*$"
POLITE = (
    r"please\b|(?:could|can|would|will) you(?: please| kindly)?\b|help me (?=understand|find)"
    r"|i(?: would|'d)? (?:like|want|need) to know\b|do you know\b|i was wondering\b|just\b"
    r"|in (?:plain|simple|other|short) (?:words|terms|english)\b"
    r"|tell me (?!(?:more |all |everything )?about|a |an )"
)
CHAT = (
    r"(?:hi|hello|hey|howdy|greetings|good (?:morning|afternoon|evening|night|day)|welcome|bye"
    r"|goodbye|farewell|see you|thanks?|thank you|thx|cheers|sorry|ok|okay|alright|sure|great|cool"
    r"|nice|brilliant|perfect|awesome|wonderful|lovely|excellent|well done|got it|understood|lo+l"
    r"|(?:ha)+h?|wow|yes|yeah|yep|no|nope|never mind|nevermind|forget it|stop|go on|go ahead"
    r"|continue|keep going|once more|that's all|(?:try |say (?:it|that) )?again"
    r"|start (?:over|again))(?:\b[ ,.!].{0,40})?|who are you|what(?:'s| is) your name"
    r"|what (?:can|do|are) you (?:able to )?do|how are you(?: .{0,12})?"
    r"|are you (?:an? )?(?:human|bot|robot|there|ai)\b.{0,12}"
)
CUES = {
    "work": (
        r"^(?:write|rewrite|translate|draft|compose|paraphrase|proofread|pretend|act as|imagine"
        r"|repeat"
        r"|role-?play|reply|respond|format|shorten|polish|say|sing|calculate|convert|remind"
        r"|schedule"
        r"|send|turn (?:this|it|that|the)|make (?:it|this|that|up)|put (?:it|this|that)|continue"
        r"|invent"
        r"|(?:from now on,? )?(?:answer|speak|talk) in|from now on|tell (?:me|us) an? (?:joke"
        r"|story)"
        r"|(?:explain|say|put) (?:it|this|that) (?:again|differently)|use an? .{1,20}(?:tone|style"
        r"|format))\b"
    ),
    "reason": r"^(?:but |and |so )?(?:why|how come)\b",
    "compare": (
        r"\bvs\b|\bversus\b|\bcompar|\bcontrast|\bdistinguish|\bdiffer(?!entia|ently)"
        r"|\bsimilar to\b"
        r"|\bsimilarit|\bhow similar\b|\balike\b|\bunlike\b|\bpros and cons\b|\bprefer"
        r"|\bin common\b"
        r"|\bsame (?:thing|as|or)\b|\bas \w+ as (?!a whole|possible|soon|well)|\bstacks? up\b"
        r"|\bapart from each\b"
        r"|\bsets?\b.{1,40}\bapart\b|\bimprove(?:d|s|ment)? (?:on|over)\b|\boutperform|\bsuperior\b"
        r"|\binferior\b|\bequivalent to\b|\binterchangeable\b|\bagainst each other\b|\bedge over\b"
        rf"|\b(?:{_MORE})\b.{{0,80}}?\bthan (?!#|\d|half|once|twice|one |two |three )"
        rf"|\b(?:which|who|or)\b.{{0,60}}?\b(?:{_MORE})\b|\bshould (?:i|we)\b.{{0,60}}? or\b"
        r"|\bwhich of the (?:two|three|four)\b|^(?:of|among|between) .{3,80}\bwhich\b"
        r"|\bwhich\b.{1,60}\bor\b"
        r"|\badvantages? .{0,60}?\bover\b|\bwhat (?:has |have )?changed\b"
        r"|^(?:do|does|did|are|is|were|was)\b.{1,80}\bthe same\b|\btrade-?offs? between\b"
        r"|^(?!(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|must"
        r"|what"
        r"|when|where|who|why|how|if)\b)[^?,]{2,40} or [^?]{2,60}\?$"
    ),
    "ideas": r"\bideas? (?:for|on|about)\b|^ideas?\b|\bbrainstorm",
    "fetch": (
        r"^(?:find|locate|open|pull up|fetch|dig (?:out|up)|track down|bring up)\b"
        rf"(?!.*\b(?:differ|compar|versus|vs)).{{0,40}}?\b(?:{_FOUND})s?\b"
    ),
    "find": (
        r"^(?:find|locate|show me|open|pull up|bring up|fetch|look up|retrieve|download|get me"
        r"|give me"
        r"|take me to|bring me to|go to|jump to|dig (?:out|up)|track down|i (?:need|want|am after)"
        r"|where(?:'s| is))"
        rf"\b.{{0,80}}?(?:\b|(?=◊))(?:{_FOUND})s?\b(?! of the art)"
        r"|^(?:find|locate|fetch|retrieve|pull up|open|show me|dig (?:out|up)|track down).{0,60}◊"
        r"|^(?:find|locate|fetch|retrieve|pull up) (?!out\b|ways\b|a way|reasons)"
        r"|\blooking for (?:the|a|an|my|our)\b|\bwhere (?:does|did|do|is|are|was|can)\b.{0,60}?"
        r"\b(?:says?|said|mention(?:s|ed)?|states?|stated|written|find|quoted)\b|\bwho said ◊"
        r"|\b(?:which|what) (?:page|chapter|section|paragraph|clause|document|file)\b"
        r"|\b(?:exact )?(?:wording|text) of\b|\bfull text\b|\bverbatim\b|\bcopy of\b"
        r"|\bthe (?:passage|paragraph|page|scene|sentence|line|quote|part)"
        r" (?:of ◊|(?:where|in which|that|about|from|on|with|when)\b)"
        rf"|^(?:the |an? )?(?:\w+ ){{0,2}}(?:{PAPERS})s? (?:of|for|from|by|between|on)\b"
        r"|\bwhat (?:does|do|did) (?:the )?◊.{0,60}?\b(?:say|state|contain|cover|read)\b"
    ),
    "understand": (
        r"\bwhy\b|\bhow (?:do|does|did|can|could|should|would|is|are|was|were|to|come|exactly|will"
        r"|has"
        r"|have|might|must|the|an?)\b|\bexplain|\bwhat (?:does|do|did) .{0,60}?\bmean"
        r"|\bmeaning of\b"
        r"|\bmeant by\b|\breasons?\b|\breasoning\b|\bcauses?\b|\bcaused\b|\bprinciples?\b"
        r"|\bpurpose\b"
        r"|\b(?:point|logic|idea|intuition|theory|story) (?:of having|of \w+ing|behind)\b"
        r"|\brationale\b"
        r"|\bmechanism|\bunderstand|\bwalk me through\b|\bsteps? (?:to|for)\b|\bi don't (?:get"
        r"|see)\b"
        r"|\bwhat (?:should|can|do|must) (?:i|we|you|one) do\b|\binterpret|\bdefin(?:e|ition)\b"
        r"|\bwhat happens\b|\bsignificance\b|\bhow\b.{0,60}?\bworks?\b|\bmake sense of\b"
        r"|\bclarify\b"
        r"|\bwhat (?:made|makes|drives|drove|led|leads|prompted|prevents?|stops|keeps|triggers?)\b"
        r"|\bsymboli|\bimpl(?:y|ies|ications?)\b|\bprocedure\b|\bguide to\b|\bconcept of\b"
    ),
    "explore": (
        r"\boverview\b|\bsummar|\blist\b.{0,30}?\b(?:all|every|of|the)\b|^list\b"
        r"|\bread(?:ing)? list\b"
        r"|\beverything\b|\btrends?\b|\b(?:tell me|learn|know|read|all|find out) (?:more "
        r"|all )?about\b"
        r"|\bbest practices?\b|\bintro(?:duction)?\b|\boutlines?\b|\b(?:types|kinds|forms"
        r"|categories) of\b"
        r"|\bways (?:to|of)\b|\btips\b|\badvice\b|\bguidance\b|\brecent\b|\blatest\b"
        r"|\bdevelopments?\b"
        r"|\bnews (?:on|about)\b|\b(?:broad|big|bigger|whole|overall) picture\b|\bup to (?:speed"
        r"|date)\b"
        r"|\b(?:run|take|talk) (?:me|us) through\b|\bcatch me up\b|\bstate of the art\b"
        r"|\btimeline of\b"
        r"|\b(?:basics|fundamentals|essentials|themes|applications|uses|benefits|drawbacks"
        r"|examples) of\b"
        rf"|\b(?:what|which) (?:other |main |kind of |sort of )?(?:\w+ )?(?:{_KINDS})\b"
        r"|\bwhat (?:else|all)\b|\bwhat(?:'s| is) new\b|\bwhat we know\b|\bwho are the (?:main"
        r"|key)\b"
        r"|\bwhat should (?:a|an|the|visitors|people|new|every)\b|\bthings to\b|\bplaces to\b"
        r"|\bwhat (?:are|were) (?:some|the (?:main|key|major|common|different|various|most))\b"
        r"|\b(?:what|which) (?:\w+ ){0,2}\w+[^s'iu\W]s (?:do|does|did|have|has|should|can|are|were"
        r"|come|exist|will) (?!it\b)"
        r"|\bwhat (?:do|does) (?:we|you|they|it) have\b|\bwhat information\b|^(?:survey|review"
        r"|explore)\b"
        r"|\bwhat(?:'s| is| are) (?:there|in (?:the|this|our|your)|inside)\b"
        r"|\bany (?:other )?(?:articles?"
        r"|documents?|material|information|resources|suggestions|recommendations|examples|advice"
        r"|news)\b"
        r"|\bsuggest|\brecommend|\blist (?:our|my|your|its)\b|\bhistory of\b|\bin general\b"
        r"|^(?:\w+ )?(?:requirements|guidelines|rules|regulations|measures|strategies|techniques"
        r"|research"
        r"|literature|studies|challenges) (?:for|on|about|in|of|to)\b|\bbackground (?:on|of)\b"
        r"|\bkey points\b"
        r"|\bhighlights\b"
        r"|\bgive me (?:some|a few|examples)\b|\ball (?:the |our )?(?:polic|documents|rules"
        r"|articles)"
        r"|^(?:describe|discuss|compile|gather)\b|^show me (?:what|all)\b"
    ),
    "lookup": (
        r"\bhow (?:many|much|long|old|far|often|big|tall|high|deep|wide|heavy|fast|large|soon|late"
        r"|early|hot|cold|strong|thick|expensive|frequently|quickly)\b|\bwho(?:se|m)?\b|\bwhen\b"
        r"|\bwhere\b"
        r"|\bwhich\b|\b(?:at|in|on|by|for|from|to) what\b|\bwhat (?:year|date|day|time|month"
        r"|percentage"
        r"|number|amount|size|colou?r|age|kind|type|price|temperature|(?:is|are|was|were) the)\b"
        r"|\bwhat(?:'s| is| are| was| were) (?:the|our|my|your|his|her|its|their|◊'s)\b"
        r"|^name (?:an?|the|one)\b"
        r"|^(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|had|may|must|am)\b"
        rf"|^(?:the )?(?:[\w-]+ ){{0,3}}(?:{_ATTRIBUTES})\b(?! ◊)"
    ),
    "define": rf"^what(?:'s| is| are) (?:an? )?[^ ]+(?: [^ ]+){{0,4}}{END}",
    "ask": r"\bwhat\b",
}
STATEMENT = r"\b(?:i|i'm|i've|we|we're|you|my)\b"
QUESTION = r"\b(?:why|how|what|when|where|who|whom|whose|which|whether)\b"
CONDITION = (
    r"\bif\b|\bunless\b|\bin case\b|\bprovided\b|\b(?:after|before|during) [◊#]"
    r"|\b(?:when|while|after|before|once|until)\b.{1,80}?,"
    r"|\bthat (?:talks?|deals?|mentions?|describes?|says?)\b|\bin which\b"
)
JOINT = r"[,;]|\b(?:and|but|as well as|while)\b"
