//! `#[boxed_futures]`: async methods in traits that are used as `dyn Trait`.
//!
//! Each `async fn` of the trait or implementation becomes a function that returns
//! `Pin<Box<dyn Future<Output = …> + Send + 'future>>`, where `'future` is the one lifetime of all references among its
//! arguments.
//!
//! The crate `async-trait` does the same with a lifetime for each argument and clauses like `'life0: 'async_trait`. With these the
//! compiler proves for each method anew, field by field, that whatever the method holds is `Send`: for our stores these are 2,500
//! types, and two thirds of the time in which our binary compiled. Without clauses it proves each type once.
//! `docs/decisions/build-profiles.md` has the figures.
//!
//! Must not know: any other crate of this workspace.

use proc_macro::TokenStream;
use proc_macro2::Span;
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Block, FnArg, Ident, ImplItem, Item, Lifetime, Pat, ReceiverKind, ReturnType, Signature, Stmt,
    TraitItem, Type, parse_macro_input, parse_quote,
};

/// Makes each `async fn` of a trait, or of an implementation of such a trait, return a boxed future that is `Send`.
///
/// ```
/// # use plumbago_boxed_futures::boxed_futures;
/// #[boxed_futures]
/// trait Names {
///     async fn contains(&self, name: &str) -> bool;
/// }
///
/// struct Fixed(Vec<String>);
///
/// #[boxed_futures]
/// impl Names for Fixed {
///     async fn contains(&self, name: &str) -> bool {
///         self.0.iter().any(|known| known == name)
///     }
/// }
///
/// let names: Box<dyn Names> = Box::new(Fixed(vec!["a.b".into()]));
/// assert!(futures::executor::block_on(names.contains("a.b")));
/// ```
///
/// # Errors
///
/// On another item than a trait or an implementation, and on a method with lifetimes of its own, the
/// compiler reports an error.
#[proc_macro_attribute]
pub fn boxed_futures(_: TokenStream, item: TokenStream) -> TokenStream {
    let mut item = parse_macro_input!(item as Item);
    match boxed(&mut item) {
        Ok(()) => item.into_token_stream().into(),
        Err(error) => error.into_compile_error().into(),
    }
}

fn boxed(item: &mut Item) -> syn::Result<()> {
    match item {
        Item::Trait(item) => {
            for inner in &mut item.items {
                if let TraitItem::Fn(method) = inner {
                    boxed_method(&mut method.attrs, &mut method.sig, method.default.as_mut())?;
                }
            }
        }
        Item::Impl(item) => {
            for inner in &mut item.items {
                if let ImplItem::Fn(method) = inner {
                    boxed_method(&mut method.attrs, &mut method.sig, Some(&mut method.block))?;
                }
            }
        }
        other => return Err(syn::Error::new_spanned(other, "expected a trait or an implementation of one")),
    }
    Ok(())
}

fn boxed_method(
    attributes: &mut Vec<Attribute>,
    signature: &mut Signature,
    block: Option<&mut Block>,
) -> syn::Result<()> {
    if signature.asyncness.take().is_none() {
        return Ok(());
    }
    attributes.push(parse_quote!(#[allow(clippy::diverging_sub_expression, clippy::type_complexity)]));
    if let Some(own) = signature.generics.lifetimes().next() {
        return Err(syn::Error::new_spanned(own, "the lifetimes of a method with a boxed future are elided"));
    }
    let mut elided = Elided::default();
    let moved = arguments(signature, &mut elided, block.is_some());
    let mut output: Type = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, output) => (**output).clone(),
    };
    elided.visit_type_mut(&mut output);
    let lifetime = if elided.found {
        signature.generics.params.insert(0, parse_quote!('future));
        named()
    } else {
        parse_quote!('static)
    };
    signature.output = parse_quote! {
        -> ::core::pin::Pin<::std::boxed::Box<
            dyn ::core::future::Future<Output = #output> + ::core::marker::Send + #lifetime
        >>
    };
    if let Some(block) = block {
        let statements = std::mem::take(&mut block.stmts);
        *block = if matches!(&output, Type::Tuple(tuple) if tuple.elems.is_empty()) {
            parse_quote!({ ::std::boxed::Box::pin(async move { #(#moved)* #(#statements)* }) })
        } else {
            // The first statement, which never returns, states the type to which `?` and `return` convert.
            parse_quote!({
                ::std::boxed::Box::pin(async move {
                    if let ::core::option::Option::Some(output) = ::core::option::Option::None::<#output> {
                        #[allow(unreachable_code)]
                        return output;
                    }
                    #(#moved)*
                    let output: #output = { #(#statements)* };
                    #[allow(unreachable_code)]
                    output
                })
            })
        };
    }
    Ok(())
}

/// Names the lifetime of each argument. If the method has a body, an argument becomes a plain name, and a statement moves
/// it into the future under its pattern, whether the body uses it or not: it lives as long as the future.
fn arguments(signature: &mut Signature, elided: &mut Elided, has_body: bool) -> Vec<Stmt> {
    let mut moved = Vec::new();
    for (number, argument) in signature.inputs.iter_mut().enumerate() {
        match argument {
            FnArg::Receiver(receiver) => elided.visit_receiver_mut(receiver),
            FnArg::Typed(argument) => {
                elided.visit_type_mut(&mut argument.ty);
                if has_body {
                    let name = match &*argument.pat {
                        Pat::Ident(pattern) => pattern.ident.clone(),
                        _ => Ident::new(&format!("argument_{number}"), Span::call_site()),
                    };
                    let pattern = std::mem::replace(&mut *argument.pat, parse_quote!(#name));
                    moved.push(parse_quote!(let #pattern = #name;));
                }
            }
        }
    }
    moved
}

fn named() -> Lifetime {
    parse_quote!('future)
}

/// Gives each elided lifetime the name `'future`.
#[derive(Default)]
struct Elided {
    /// Whether there was one.
    found: bool,
}

impl VisitMut for Elided {
    fn visit_receiver_kind_mut(&mut self, kind: &mut ReceiverKind) {
        if let ReceiverKind::Reference(_, lifetime @ None, _) = kind {
            self.found = true;
            *lifetime = Some(named());
        }
        visit_mut::visit_receiver_kind_mut(self, kind);
    }

    fn visit_type_reference_mut(&mut self, reference: &mut syn::TypeReference) {
        if reference.lifetime.is_none() {
            self.found = true;
            reference.lifetime = Some(named());
        }
        visit_mut::visit_type_reference_mut(self, reference);
    }

    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident == "_" {
            self.found = true;
            *lifetime = named();
        }
    }

    // The references in the signature of a function type belong to that type.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut syn::TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments_mut(&mut self, _: &mut syn::ParenthesizedGenericArguments) {}
}
